"""Rows on disk, read in blocks."""

from cornerstep.data.rows import (
    HeldRows,
    MappedRows,
    Rows,
    SvmlightRows,
    open_rows,
)

__all__ = [
    "HeldRows",
    "MappedRows",
    "Rows",
    "SvmlightRows",
    "open_rows",
]
