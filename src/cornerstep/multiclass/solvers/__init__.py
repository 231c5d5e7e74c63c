"""Solvers of the multi-class SVM."""
