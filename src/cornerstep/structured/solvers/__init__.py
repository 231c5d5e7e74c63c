"""Solvers of the structured SVM, and the dual states that they work on."""
