"""Solvers of the kernel SVM."""
