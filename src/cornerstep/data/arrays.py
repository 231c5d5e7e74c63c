"""Arrays of other libraries than NumPy: torch tensors, and whatever follows the array-API standard.

Nothing here is imported before such an array is met.  ``array-api-compat`` gives all libraries one
set of names; what torch alone can do (products with a wider result, TF32) is decided here too.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np


class DeviceError(RuntimeError):
    """The device that the data are on failed: out of memory, a failed launch, a lost device."""


@contextmanager
def device_errors(X: Any) -> Iterator[None]:
    """Turn what torch raises when a device fails into one clear error.

    After a failed kernel every later call fails as well: the process has to be started anew.
    """
    if not is_torch(X):
        yield
        return
    import torch

    failures = (torch.OutOfMemoryError, torch.AcceleratorError, *_launch_errors())
    try:
        yield
    except failures as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if isinstance(error, torch.OutOfMemoryError):
            advice = "give fewer rows at a time or a smaller dtype, or free memory there"
        else:
            advice = "if it was lost, start the process anew"
        raise DeviceError(
            f"the device {X.device} failed on X of shape {tuple(X.shape)}: {first}; {advice}"
        ) from error


def _launch_errors() -> tuple[type[Exception], ...]:
    """What Triton raises for a kernel that does not fit the device."""
    if not has_triton():
        return ()
    from triton.errors import TritonError

    return (TritonError,)


def is_other_library(X: Any) -> bool:
    """Whether X is an array of another library that follows the standard."""
    if isinstance(X, np.ndarray | np.generic):
        return False
    module = type(X).__module__.split(".")[0]
    return module == "torch" or (module != "dask" and hasattr(X, "__array_namespace__"))


def namespace(X: Any) -> Any:
    """The functions of the library that X is of."""
    for home in ("array_api_compat", "sklearn.externals.array_api_compat"):  # or its copy there
        try:
            return import_module(home).array_namespace(X)
        except ImportError:
            continue
    raise ImportError(
        f"arrays of {type(X).__module__.split('.')[0]} need array-api-compat: "
        "pip install 'cornerstep[torch]'"
    )


def is_torch(X: Any) -> bool:
    """Whether X is a torch tensor."""
    return type(X).__module__.split(".")[0] == "torch"


def on_gpu(X: Any) -> bool:
    """Whether X is a torch tensor on a CUDA device."""
    return is_torch(X) and bool(X.is_cuda)


def to_numpy(X: Any) -> Any:
    """A NumPy array of the same entries; a SciPy CSR array of a sparse tensor."""
    if is_torch(X):
        if X.is_sparse_csr:
            X = X.detach().cpu()
            import scipy.sparse as sp

            parts = X.values(), X.col_indices(), X.crow_indices()
            return sp.csr_array(tuple(part.numpy() for part in parts), shape=tuple(X.shape))
        short = X.dtype.itemsize < 4 and X.is_floating_point()
        return (X.float() if short else X).numpy(force=True)
    return np.asarray(X)


def on_host(X: Any) -> bool:
    """Whether X is a torch tensor in the memory of the CPU, which NumPy can share."""
    return is_torch(X) and X.device.type == "cpu"


def refuse_gradients(**given: Any) -> None:
    """Training keeps no graph: gradients that somebody waits for would never come."""
    for name, values in given.items():
        if is_torch(values) and values.requires_grad:
            raise ValueError(
                f"{name} must be without gradients, got a tensor that requires them: training "
                f"does not pass them on; give {name}.detach()"
            )


def made_of_numpy(estimator: Any) -> Any:
    """A fitted estimator, or a copy with arrays of NumPy for those of other libraries."""
    if any(is_other_library(value) for value in vars(estimator).values()):
        estimator = copy.copy(estimator)
        given = {k: to_numpy(v) for k, v in vars(estimator).items() if is_other_library(v)}
        vars(estimator).update(given)
    return estimator


def numpy_of(*values: Any) -> tuple[Any, ...]:
    """Arrays of other libraries as those of NumPy; all else as it is."""
    return tuple(to_numpy(value) if is_other_library(value) else value for value in values)


def as_kind_of(values: Any, like: Any) -> Any:
    """Numbers as an array of the library and on the device of ``like``; words stay in NumPy."""
    if not is_other_library(like):
        return to_numpy(values)
    if is_other_library(values):
        if namespace(values) is namespace(like) and values.device == like.device:
            return values
        values = to_numpy(values)
    return from_numpy(values, like) if values.dtype.kind in "biuf" else values


def require_whole(X: Any) -> None:
    """Complain about examples that come in batches."""
    first = X[0] if isinstance(X, list | tuple) and X else None
    loads = is_torch(X) and not hasattr(X, "layout")  # a Dataset, a DataLoader
    if loads or hasattr(X, "__next__") or len(getattr(first, "shape", ())) > 1:
        raise TypeError(
            f"X must be one matrix with a row per example, got {type(X).__name__}: join its "
            "batches, as X = torch.cat([x for x, _ in batches]), or write them to a file that "
            "cornerstep.streaming.open_rows reads in blocks"
        )


def compressed(X: Any) -> Any:
    """A matrix as a sparse CSR tensor where it is one of torch; else itself."""
    if not is_torch(X):
        return X
    with _silent():
        return X.to_sparse_csr()


def joined(xp: Any, parts: list[Any]) -> Any:
    """Matrices below each other."""
    if len(parts) == 1 or not is_torch(parts[0]) or not parts[0].is_sparse_csr:
        return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)
    counts = [part.crow_indices().diff() for part in parts]
    values, columns = (
        [getattr(part, name)() for part in parts] for name in ("values", "col_indices")
    )
    shape = sum(part.shape[0] for part in parts), parts[0].shape[1]
    return csr_tensor(xp.concat(counts), xp.concat(columns), xp.concat(values), shape)


def csr_tensor(counts: Any, columns: Any, values: Any, shape: tuple[int, int]) -> Any:
    """A sparse tensor with so many entries in each row."""
    import torch

    starts = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    with _silent():
        return torch.sparse_csr_tensor(starts, columns, values, size=shape, check_invariants=False)


def tensor_of(matrix: Any) -> Any:
    """A SciPy CSR array as a sparse tensor on the CPU."""
    import torch

    parts = np.diff(matrix.indptr), matrix.indices, matrix.data
    counts, columns, values = (torch.from_numpy(part) for part in parts)
    return csr_tensor(counts.long(), columns.long(), values, matrix.shape)


@contextmanager
def _silent() -> Iterator[None]:
    """Without torch's word, once a process, that its CSR tensors are new."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        warnings.filterwarnings("ignore", "Sparse invariant checks are implicitly disabled")
        yield


def from_numpy(X: Any, like: Any, dtype: Any = None) -> Any:
    """An array of the library and on the device of ``like``."""
    return namespace(like).asarray(X, dtype=dtype, device=like.device)


@contextmanager
def quick_products(X: Any, quick: bool = True) -> Iterator[None]:
    """Let products of float32 matrices use TF32 units, where there are some, or forbid it."""
    if not on_gpu(X):
        yield
        return
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if quick else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def is_half_precision(X: Any) -> bool:
    """Whether entries have fewer digits than float32: bfloat16 or float16."""
    return is_torch(X) and X.dtype.itemsize < 4


def truncate_mantissa(X: Any, dtype: Any) -> Any:
    """X in a shorter type, or in float32 with the eleven digits that TF32 units read."""
    if is_torch(X) and X.dtype == dtype and X.dtype.itemsize == 4:
        import torch

        return (X.view(torch.int32) & -8192).view(torch.float32)
    return namespace(X).astype(X, dtype)


def product(a: Any, b: Any, row: Any = None) -> Any:
    """``a @ b``, plus a row, of one type; of short types the result is in float32."""
    if not is_torch(a):
        out = a @ b
        return out if row is None else out + namespace(a).astype(row, out.dtype)[None, :]
    import torch

    if is_half_precision(a) and not a.is_cuda:
        a, b = a.float(), b.float()
    if is_half_precision(a):
        if row is not None:
            return torch.addmm(row.float(), a, b, out_dtype=torch.float32)
        return torch.mm(a, b, out_dtype=torch.float32)
    return torch.mm(a, b) if row is None else torch.addmm(row.to(a.dtype), a, b)


def product_in_parts(a: Any, b: Any) -> Any:
    """``a @ b`` as float32 would have it, of a short type and float64, on a GPU.

    ``b`` is a sum of three matrices of the short type, whose products with ``a`` are exact: three
    products of short types take a third of the time of one in float32.
    """
    import torch

    parts, rest = [], b
    for _ in range(3):
        parts.append(rest.to(a.dtype))
        rest = rest - parts[-1].to(b.dtype)
    out = torch.mm(a, parts.pop(), out_dtype=torch.float32)
    while parts:
        out = torch.addmm(out, a, parts.pop(), out_dtype=torch.float32)
    return out


def has_triton() -> bool:
    """Whether kernels for the GPU can be compiled."""
    return find_spec("triton") is not None
