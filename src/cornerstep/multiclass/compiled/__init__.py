"""The compiled sweeps of the multi-class solvers."""
