"""Saddle points: the dual extragradient method."""

from cornerstep.optimiser.saddle import (
    Bilinear,
    extragradient,
)

__all__ = [
    "Bilinear",
    "extragradient",
]
