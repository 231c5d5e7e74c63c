"""Estimators: validate, build a problem, run, read off attributes."""
