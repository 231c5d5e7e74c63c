"""Weak learners: the oracles of boosting."""
