"""Kernel SVMs: the distance between reduced convex hulls."""
