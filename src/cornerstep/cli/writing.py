"""Data files written: svmlight/LIBSVM, CSV, Parquet and npz."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.cli.data import STDIN, Dataset, format_of
from cornerstep.cli.screen import UserError
from cornerstep.core.output import replacing, replacing_text


def write(data: Dataset, path: Path, target: str = "target") -> None:
    """Write a data file; the ending says which format."""
    kind = format_of(path)
    if kind == "npy":
        raise UserError(f"{path} cannot hold labels: write npz instead")
    if path.suffix.lower() == ".gz" or path == STDIN:
        raise UserError(f"{path} is for reading: write .csv, and pack it")
    if kind == "svmlight":
        _write_svmlight(data.numeric(), path)
    elif kind == "npz":
        _write_npz(data.numeric(), path)
    else:
        table = _as_columns(data, target)
        (_write_csv if kind == "csv" else _write_parquet)(table, path)


def _write_svmlight(data: Dataset, path: Path) -> None:
    from sklearn.datasets import dump_svmlight_file

    y = np.zeros(data.n) if data.y is None else data.y
    if np.asarray(y).dtype.kind not in "biuf":
        raise UserError(
            f"svmlight files need numbers as labels, {data.path} has {str(y[0])!r}: "
            "write CSV, Parquet or npz"
        )
    qid = None
    if data.sequence is not None:
        qid = np.unique(data.sequence, return_inverse=True)[1] + 1
    with replacing(path) as file:
        dump_svmlight_file(data.X, y, file, zero_based=False, query_id=qid)


def _write_npz(data: Dataset, path: Path) -> None:
    arrays: dict[str, Any] = {}
    if sp.issparse(data.X):
        arrays.update(data=data.X.data, indices=data.X.indices, indptr=data.X.indptr,
                      shape=np.array(data.X.shape))  # fmt: skip
    else:
        arrays["X"] = data.X
    for name, values in (("y", data.y), ("sequence", data.sequence)):
        if values is not None:
            arrays[name] = values
    if data.names:
        arrays["feature_names"] = np.array(data.names)
    with replacing(path) as file:
        np.savez_compressed(file, **arrays)


def _as_columns(data: Dataset, target: str) -> dict[str, Any]:
    dense = data.dense()
    names = data.names or [f"x{k + 1}" for k in range(dense.shape[1])]
    table = dict(zip(names, dense.T, strict=True))
    if data.y is not None:
        table[target] = data.y
    if data.sequence is not None:
        table["sequence"] = data.sequence
    return table


def _write_csv(table: dict[str, Any], path: Path) -> None:
    with replacing_text(path, newline="") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        writer.writerow(table)
        cells = ([_cell(value) for value in values.tolist()] for values in table.values())
        writer.writerows(zip(*cells, strict=True))


def _cell(value: Any) -> Any:
    return "" if value != value else value


def _write_parquet(table: dict[str, Any], path: Path) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise UserError("Parquet files need pyarrow: pip install 'cornerstep[parquet]'") from None
    content = pa.table(
        {name: pa.array(values.tolist(), from_pandas=True) for name, values in table.items()}
    )
    with replacing(path) as file:
        pq.write_table(content, file)
