"""Sums of kernel values as nodes of an ONNX graph, in float64 from the float32 rows on.

Where the kernel depends on distances, rows are taken relative to the mean of the support vectors:
``|x|² + |v|² - 2 <x, v>`` loses digits to an offset.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray
from cornerstep.learning.kernel_functions import KERNELS, Kernel

IN_GRAPHS = tuple(name for name in KERNELS if name != "precomputed")


class KernelGraph:
    """Nodes and constants of a graph that begins with ``sums = k(X, V) A``.

    Parameters
    ----------
    kernel : Kernel
        One of ``IN_GRAPHS``.
    vectors : array or sparse matrix of shape (s, d)
        V, the support vectors.
    coefficients : array of shape (s, m)
        A.
    constant : array of shape (m,)
        Added to each sum.

    Attributes
    ----------
    nodes, constants : list
    """

    def __init__(
        self, kernel: Kernel, vectors: Any, coefficients: FloatArray, constant: FloatArray
    ) -> None:
        from onnx import TensorProto

        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        dense = vectors.toarray() if hasattr(vectors, "toarray") else np.asarray(vectors)
        V, A = dense.astype(np.float64), np.asarray(coefficients, dtype=np.float64)
        X = self.add("Cast", "X", to=TensorProto.DOUBLE)
        if kernel.name == "linear":
            sums = self.add("MatMul", X, self.given(V.T @ A))
        else:
            sums = self.add("MatMul", self._values(kernel, X, V), self.given(A))
        self.add("Add", sums, self.given(np.asarray(constant, dtype=np.float64)), out="sums")

    def add(self, kind: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        """A node; the name of what it makes."""
        from onnx import helper

        name = out or f"kernel{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def given(self, values: Any) -> str:
        """A constant; its name."""
        from onnx import numpy_helper

        name = f"given{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def answer(self, scores: str) -> tuple[list[Any], list[Any]]:
        """Nodes and constants, with these numbers as ``scores``."""
        from onnx import TensorProto

        self.add("Cast", scores, out="scores", to=TensorProto.FLOAT)
        return self.nodes, self.constants

    def _values(self, kernel: Kernel, X: str, V: FloatArray) -> str:
        if kernel.name == "rbf":
            middle = V.mean(axis=0) if V.size else np.zeros(V.shape[1])
            V = V - middle
            X = self.add("Sub", X, self.given(middle))
            square = self.add(
                "ReduceSum", self.add("Mul", X, X), self.given(np.array([1])), keepdims=1
            )
            twice = self.add("MatMul", X, self.given(-2.0 * V.T))
            far = self.add("Add", self.add("Add", square, twice), self.given((V**2).sum(axis=1)))
            far = self.add("Max", far, self.given(0.0))
            return self.add("Exp", self.add("Mul", far, self.given(-float(kernel.gamma))))
        products = self.add("MatMul", X, self.given(float(kernel.gamma) * V.T))
        inner = self.add("Add", products, self.given(float(kernel.coef0)))
        if kernel.name == "sigmoid":
            return self.add("Tanh", inner)
        return self.add("Pow", inner, self.given(float(kernel.degree)))
