"""Benchmarks: datasets + solvers + a judge that recomputes the quality of every answer itself."""
