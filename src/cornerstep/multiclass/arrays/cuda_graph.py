"""Frank-Wolfe on a GPU, an iteration as one CUDA graph: few launches, one list of numbers to read.

The methods 'fw' and 'fw-open-loop' of :mod:`cornerstep.multiclass.solvers.batch` without
smoothing, step for step: what decides a step (gap, curvature, steps taken) stays on the device, and
the graph of an iteration is *take the step, then look*.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from cornerstep.data.arrays import quick_products
from cornerstep.multiclass.arrays.rows import ArrayRows
from cornerstep.multiclass.solvers.batch import BatchDescent
from cornerstep.multiclass.solvers.passes import PROBES, SAFETY, DualState
from cornerstep.optimiser.loop import Look, Move

_WARM_UPS = 2  # iterations before the capture: kernels are compiled and plans chosen in them


class GraphDescent(BatchDescent):
    """Iterations on all examples at once, for the loop.

    Parameters
    ----------
    rows : ArrayRows
        Of torch tensors on a CUDA device, without smoothing.
    rule : str
        'fw' or 'fw-open-loop'.
    state : DualState, optional
        Where to start.
    """

    def __init__(self, rows: ArrayRows, rule: str, state: DualState | None = None) -> None:
        super().__init__(rows, rule, state)
        self.rows: ArrayRows = rows
        begun = self.state
        numbers = {"dtype": torch.float64, "device": begun.image.device}
        self._image, self._probed = begun.image.clone(), begun.probed.clone()
        self._linear = torch.tensor(begun.linear, **numbers)
        self._steps = torch.tensor(float(begun.steps), **numbers)
        self._corner_image, self._corner_probed = begun.image.clone(), begun.probed.clone()
        self._corner_linear = self._linear.clone()
        self._numbers = torch.zeros(6, **numbers)
        self._graph: Any = None
        self._moves, self._looked = 0, False

    @property
    def point(self) -> DualState:
        return self.state._replace(image=self._image.clone())

    def look(self) -> Look:
        if not self._looked:
            self._looked = True
            with quick_products(self._image):
                self._pass()
        losses, square, linear, error, curvature, _ = self._numbers.tolist()
        self._gap, self._curvature = losses + square - linear, curvature
        error = SAFETY * math.sqrt(error / PROBES)
        norm = math.sqrt(square) + error
        dual = linear - 0.5 * norm * norm
        if dual > self.best_dual:
            self.best_dual = dual
            self.best = self.state._replace(
                image=self._image.clone(), linear=linear, probed=self._probed.clone()
            )
        return self._look(losses + 0.5 * square)

    def move(self) -> Move:
        t = self.state.steps + 1
        if self.rule == "fw-open-loop":
            step = 2.0 / (t + 1)
        else:
            step = min(1.0, self._gap / self._curvature) if self._curvature > 0 else 1.0
        self.state = self.state._replace(steps=t)
        with quick_products(self._image):
            self._advance()
        return Move(step, "fw")

    def _advance(self) -> None:
        if self._graph is not None:
            self._graph.replay()
        elif self._moves < _WARM_UPS:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self._iterate()
            torch.cuda.current_stream().wait_stream(stream)
            self._moves += 1
        else:
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._iterate()
            self._graph.replay()

    def _iterate(self) -> None:
        self._steps += 1.0
        if self.rule == "fw-open-loop":
            step = 2.0 / (self._steps + 1.0)
        else:
            losses, square, linear, _, curvature, _ = self._numbers.unbind()
            step = torch.where(curvature > 0, (losses + square - linear) / curvature, 1.0)
            step = step.clamp(max=1.0)
        self._image.lerp_(self._corner_image, step)
        self._probed.lerp_(self._corner_probed, step)
        self._linear.lerp_(self._corner_linear, step)
        self._pass()

    def _pass(self) -> None:
        corner, losses, _ = self.rows.device_pass(self._image, self.state.alpha, False)
        self._corner_image.copy_(corner.image)
        self._corner_probed.copy_(corner.probed)
        self._corner_linear.copy_(corner.linear)
        change = torch.linalg.vector_norm(self._corner_image - self._image)
        size = torch.linalg.vector_norm(self._image)
        error = self.rows.square_of_error(self._image, self._probed)
        numbers = [losses, size * size, self._linear, error, change * change, self._corner_linear]
        torch.stack(numbers, out=self._numbers)
