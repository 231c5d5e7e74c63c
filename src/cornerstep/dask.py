"""Training on the workers of a Dask cluster."""

from cornerstep.data.dask import (
    fit,
    read_parquet,
)

__all__ = [
    "fit",
    "read_parquet",
]
