"""The compiled sweeps of structured models."""
