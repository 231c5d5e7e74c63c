"""What networks in torch take from the library."""

from cornerstep.multiclass.network_losses import MarginLoss

__all__ = [
    "MarginLoss",
]
