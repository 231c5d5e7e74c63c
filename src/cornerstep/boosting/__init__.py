"""Soft-margin boosting: LPBoost, ERLPBoost, C-ERLPBoost, MLPBoost."""
