"""Functions of PyTorch tensors: gradients by autograd, on the CPU or a GPU.

A run walks in the precision that is asked for, float32 by default; what it certifies is computed
from the data in float64.  Torch is imported when such an objective is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cornerstep.core.rounding import EPSILON
from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import Direction
from cornerstep.domains.base import require_size
from cornerstep.optimiser.objectives import Position, usual_errors

_PRECISIONS = {"float32": 2.0**-24, "float64": EPSILON}


class TorchObjective:
    """A convex function written in PyTorch.

    The rounding of a value and of a gradient is a rule, as for :class:`Smooth`: sixteen units in
    the last place of the sizes of their terms, and how the gradient answers to a rounding of x.

    Parameters
    ----------
    function : callable
        ``function(x, *data)``: a tensor with one number, of a tensor x with n entries.
    n : int
        Number of coordinates.
    data : tensors
        What the function needs besides; copies in both precisions are kept where it lies.  The
        run's points go to the device of the first of them.
    precision : {'float32', 'float64'}
        In which the run walks.
    lipschitz, strong_convexity : float, optional
        Of the gradient, and of the function; the ``short`` step and the schedules need them.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        n: int,
        *data: Any,
        precision: str = "float32",
        lipschitz: float | None = None,
        strong_convexity: float | None = None,
    ) -> None:
        import torch

        if not callable(function):
            raise TypeError(f"function must be a function of a tensor, got {function!r}")
        if precision not in _PRECISIONS:
            raise ValueError(f"precision must be float32 or float64, got {precision!r}")
        for part in data:
            if not isinstance(part, torch.Tensor):
                raise TypeError(f"data must be tensors, got {type(part).__name__}")
        self.function = function
        self.size = require_size(n)
        self.precision = precision
        self.lipschitz = lipschitz
        self.strong_convexity = strong_convexity
        self._device = data[0].device if data else torch.device("cpu")
        self._data = {
            name: [_cast(part, getattr(torch, name)) for part in data]
            for name in {"float64", precision}
        }

    def value(self, x: FloatArray, precision: str = "float64") -> float:
        """``f(x)``."""
        import torch

        with torch.no_grad():
            return float(self._answer(self._tensor(x, precision), precision))

    def value_and_gradient(
        self, x: FloatArray, precision: str = "float64"
    ) -> tuple[float, FloatArray]:
        """``f(x)`` and its gradient there."""
        import torch

        with torch.enable_grad():
            point = self._tensor(x, precision).requires_grad_()
            answer = self._answer(point, precision)
            (gradient,) = torch.autograd.grad(answer, point)
        return float(answer.detach()), gradient.to("cpu", torch.float64).numpy()

    def _tensor(self, x: FloatArray, precision: str) -> Any:
        import torch

        # a copy: the function may write into it, or keep it
        return torch.tensor(x, dtype=getattr(torch, precision), device=self._device)

    def _answer(self, x: Any, precision: str) -> Any:
        answer = self.function(x, *self._data[precision])
        if getattr(answer, "ndim", None) != 0:
            shape = tuple(getattr(answer, "shape", ())) or type(answer).__name__
            raise ValueError(f"function must return a tensor with one number, got {shape}")
        return answer

    def at(self, x: FloatArray) -> _TorchPosition:
        return _TorchPosition(self, x, "float64")

    def errors(self, position: Position) -> tuple[float, FloatArray]:
        """By the rule, in units of the precision that the position was computed in."""
        precision = getattr(position, "precision", "float64")
        unit = _PRECISIONS[precision]
        value, gradient = usual_errors(position)
        value, gradient = value * (unit / EPSILON), gradient * (unit / EPSILON)
        x = position.x
        signs = np.where(np.arange(x.size) % 2 == 0, 2 * unit, -2 * unit)
        moved = self.value_and_gradient(x * (1 + signs), precision)[1]
        change = float(np.abs(moved - position.gradient).max(initial=0.0))
        if not np.isfinite(change):  # x is at the edge of where f is defined
            return value, gradient
        lost = 16 * max(1.0, x.size**0.5) * change
        return value + lost * float(np.abs(x).sum()), gradient + lost


def _cast(part: Any, dtype: Any) -> Any:
    """A tensor of numbers in this precision; whole numbers, which index, stay what they are."""
    return part.detach().to(dtype) if part.is_floating_point() else part.detach()


class _TorchPosition:
    __slots__ = ("gradient", "inner", "objective", "precision", "value", "x")

    def __init__(self, objective: TorchObjective, x: FloatArray, precision: str) -> None:
        self.objective = objective
        self.x = x
        self.precision = precision
        self.value, self.gradient = objective.value_and_gradient(x, precision)
        self.inner = float(self.gradient.dot(x))

    def along(self, direction: Direction) -> _TorchRay:
        return _TorchRay(self, direction)


class _TorchRay:
    __slots__ = ("curvature", "direction", "origin", "slope")

    def __init__(self, origin: _TorchPosition, direction: Direction) -> None:
        self.origin = origin
        self.direction = direction
        self.slope = float(origin.gradient.dot(direction.dense))
        self.curvature = None

    def value(self, step: float) -> float:
        f = self.origin.objective
        return f.value(self.origin.x + step * self.direction.dense, f.precision)

    def derivative(self, step: float) -> float:
        f = self.origin.objective
        x = self.origin.x + step * self.direction.dense
        return float(f.value_and_gradient(x, f.precision)[1] @ self.direction.dense)

    def land(self, step: float, x: FloatArray) -> _TorchPosition:
        return _TorchPosition(self.origin.objective, x, self.origin.objective.precision)
