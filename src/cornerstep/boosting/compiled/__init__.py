"""The compiled sweeps of weak learners."""
