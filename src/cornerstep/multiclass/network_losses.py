"""The losses of multi-class machines for the last layer of a network, as a torch module.

``Phi_mu(s; y) = max over beta in B of <beta, z> - mu/2 |alpha|²`` of the scores s of each example
(:mod:`cornerstep.multiclass.simplex_loss`), with an entropy in place of the square for softmax and
top-k entropy.  Its gradient is ``-alpha``, which is found with the value: on a GPU by the kernel of
:mod:`cornerstep.multiclass.arrays.triton_envelope`, which reads and writes each score once, on the
CPU by the compiled projections.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import torch

from cornerstep.core.types import FloatArray
from cornerstep.data.arrays import has_triton, namespace
from cornerstep.multiclass.arrays.losses import ArrayLoss
from cornerstep.multiclass.entropic import Softmax, TopKEntropy
from cornerstep.multiclass.losses import Loss, make_loss
from cornerstep.multiclass.simplex_loss import SimplexLoss

REDUCTIONS = ("mean", "sum", "none")
HALF = (torch.float16, torch.bfloat16)
_LOWEST = -1e250  # in the place of -inf: margins to it are finite, and it gets no weight
_ENTRIES = 2**15  # scores at a time on the CPU: what is made of them stays in its cache


class MarginLoss(torch.nn.Module):
    r"""A loss of :class:`~cornerstep.MulticlassSVC` as a module, in place of ``CrossEntropyLoss``.

    .. math:: \Phi_\mu(s; y) = \max_{\beta \in B} \; \langle \beta, z \rangle - \tfrac\mu2
        \lVert \alpha \rVert^2, \qquad z_j = s_j - s_y + \Delta_j

    Half-precision scores, as autocast makes them, are computed with in float64 (softmax, by torch's
    own cross-entropy, in float32) and give a loss in float32.  A class with the score -inf is never
    guessed and has no gradient; where it is the label, the loss is inf.  A row with NaN, with inf,
    or with -inf alone, and on a GPU one whose label is no class, has the loss NaN.  Softmax is
    torch's own cross-entropy, in all that is not said here, and alone has second derivatives.

    Parameters
    ----------
    loss : str or SimplexLoss, default='max-hinge'
        One of ``cornerstep.losses.LOSSES``, or a loss itself.
    k : int, default=5
        Guesses that may be made, of 'top-k', 'usunier' and 'top-k-entropy'.
    rho : array of shape (K,), optional
        Of 'weighted-top-k' and 'weighted-usunier': decreasing weights of the sorted margins.
    costs : array of shape (m, m), optional
        Of 'cost-sensitive': Delta, a row per label.
    smoothing : float, default=1.0
        mu: 0 for the loss itself, whose gradient jumps; 'softmax' needs more, and is cross-entropy
        with 1.
    weight : tensor of shape (m,), optional
        Of the classes; 'mean' divides by the sum of the weights of the labels.
    ignore_index : int, default=-100
        A label whose rows do not count.
    reduction : {'mean', 'sum', 'none'}

    Examples
    --------
    >>> import torch
    >>> from cornerstep.torch import MarginLoss
    >>> scores = torch.tensor([[2.0, 1.5, 0.0]], requires_grad=True)
    >>> loss = MarginLoss("top-k", k=2, smoothing=0.0)(scores, torch.tensor([0]))
    >>> loss.backward()
    >>> print(loss.item(), scores.grad)
    0.25 tensor([[-0.5000,  0.5000,  0.0000]])
    """

    weight: torch.Tensor | None

    def __init__(
        self,
        loss: str | SimplexLoss = "max-hinge",
        *,
        k: int = 5,
        rho: Any = None,
        costs: Any = None,
        smoothing: float = 1.0,
        weight: Any = None,
        ignore_index: int = -100,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        rho, costs = (None if given is None else np.asarray(given) for given in (rho, costs))
        self.loss = make_loss(loss, k=k, rho=rho, costs=costs)
        if not self.loss.of_differences:
            raise ValueError(f"loss must be one of differences of scores, got {self.loss!r}")
        self.smoothing, self.ignore_index, self.reduction = smoothing, ignore_index, reduction
        least = "positive" if self.loss.entropic else ">= 0"
        if not (isinstance(smoothing, Real) and 0 <= float(smoothing) < np.inf) or (
            self.loss.entropic and smoothing == 0
        ):
            raise ValueError(f"smoothing must be a number {least}, got {smoothing!r}")
        if not isinstance(ignore_index, int):
            raise ValueError(f"ignore_index must be an integer, got {ignore_index!r}")
        if reduction not in REDUCTIONS:
            raise ValueError(f"reduction must be one of {', '.join(REDUCTIONS)}, got {reduction!r}")
        if self.loss.per_example:
            raise ValueError(
                "loss must have costs of classes, got costs of examples: a batch has others"
            )
        if weight is not None:
            weight = torch.as_tensor(weight)
            if weight.ndim != 1 or not bool((torch.isfinite(weight) & (weight >= 0)).all()):
                raise ValueError(
                    f"weight must be a vector of finite numbers >= 0, one per class, got {weight}"
                )
        self.register_buffer("weight", weight)

    def extra_repr(self) -> str:
        """What torch prints of the module."""
        return f"{self.loss!r}, smoothing={self.smoothing:g}, reduction={self.reduction!r}"

    def forward(self, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The loss of a batch.

        Parameters
        ----------
        scores : tensor of shape (n, m) or (n, m, ...) or (m,)
        labels : integer tensor of shape (n,) or (n, ...) or ()
        """
        self._check(scores, labels)
        shape, classes = labels.shape, 0 if scores.ndim == 1 else 1
        rows = scores.movedim(classes, -1).reshape(-1, scores.shape[classes])
        labels = labels.reshape(-1).long()
        if isinstance(self.loss, Softmax):
            values = self._cross_entropy(rows, labels)
        else:
            values = _Envelope.apply(rows, labels, self)
        return values.reshape(shape) if self.reduction == "none" else values

    def _cross_entropy(self, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Softmax by torch's own: ``mu`` times the cross-entropy of ``(s - margin e_y) / mu``."""
        mu, margin = float(self.smoothing), self.loss.margin
        scores = scores.float() if scores.dtype in HALF else scores
        if margin:
            of = labels.clamp(0, scores.shape[1] - 1)[:, None]
            scores = scores.scatter_add(1, of, torch.full_like(of, -margin, dtype=scores.dtype))
        values = torch.nn.functional.cross_entropy(
            scores if mu == 1 else scores / mu, labels,
            None if self.weight is None else self.weight.to(scores.dtype),
            ignore_index=self.ignore_index, reduction=self.reduction,
        )  # fmt: skip
        return values if mu == 1 else mu * values

    def examples(
        self, scores: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The losses of rows and their weights, two columns, and the gradients."""
        if self.smoothing and len(scores) and self._is_fused(scores):
            return self._fused(scores.contiguous(), labels)
        m = scores.shape[1]
        counts, known = labels != self.ignore_index, (labels >= 0) & (labels < m)
        of = torch.where(counts & known, labels, 0)
        here = scores.device.type == "cpu" or not isinstance(self.loss, Loss | TopKEntropy)
        find = _by_oracles if here else self._by_tensors
        values, points = find(scores, of, self.loss, float(self.smoothing))
        if len(scores):
            masked = scores.gather(1, of[:, None])[:, 0] == -torch.inf
            values = torch.where(masked & ~values.isnan(), torch.inf, values)
        values = torch.where(known, values, torch.nan)
        values = values.to(torch.float32 if scores.dtype in HALF else scores.dtype)
        weights = torch.ones_like(values) if self.weight is None else self.weight.to(values)[of]
        weights = torch.where(counts, weights, 0.0)
        values = torch.where(counts, weights * values, 0.0)
        if self.weight is not None or not bool(counts.all()):
            points = torch.where(counts[:, None], weights.to(points.dtype)[:, None] * points, 0.0)
        return torch.stack([values, weights], dim=1), points.neg_()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_prepared"}

    def _arrays(self, scores: torch.Tensor) -> tuple[ArrayLoss, torch.Tensor]:
        """The loss on the device of scores, and what kernels read of it: made once."""
        m, kept = scores.shape[1], self.__dict__.setdefault("_prepared", {})
        key = scores.device, m, self.loss, float(self.smoothing)
        if key not in kept:
            loss: Any = self.loss
            arrays = ArrayLoss(loss, namespace(scores), scores, m)
            constants = arrays.rho.new_tensor([key[3], 1.0, self.loss.margin, _LOWEST])
            kept.clear()
            kept[key] = arrays, constants
        out: tuple[ArrayLoss, torch.Tensor] = kept[key]
        return out

    def _is_fused(self, scores: torch.Tensor) -> bool:
        if not (scores.is_cuda and has_triton() and isinstance(self.loss, Loss | TopKEntropy)):
            return False
        from cornerstep.multiclass.arrays.triton_launch import LONGEST

        return self.loss.rho.size <= LONGEST

    def _fused(
        self, scores: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """By one kernel, which reads and writes each score once."""
        from cornerstep.multiclass.arrays import triton_entropic, triton_envelope
        from cornerstep.multiclass.arrays.triton_launch import Targets

        arrays, constants = self._arrays(scores)
        nothing = constants[:0]
        targets = Targets(
            labels, nothing if self.weight is None else self.weight,
            nothing if arrays.costs is None else arrays.costs, int(arrays.costs is not None),
            self.ignore_index,
        )  # fmt: skip
        kind = torch.float64 if scores.dtype == torch.float64 else torch.float32
        numbers = torch.empty((len(scores), 2), dtype=kind, device=scores.device)
        gradients = torch.empty_like(scores)
        if self.loss.entropic:
            count = len(arrays.weights)
            triton_entropic.nearest(scores, targets, constants, count, gradients, numbers)
        else:
            triton_envelope.nearest(
                scores, targets, constants, arrays.rho, arrays.equal, arrays.whole, gradients,
                numbers,
            )  # fmt: skip
        return numbers, gradients

    def _by_tensors(
        self, scores: torch.Tensor, labels: torch.Tensor, loss: Any, smoothing: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """By operations on whole tensors."""
        arrays, _ = self._arrays(scores)
        rows = _without_infinite(scores.double())
        deltas = arrays.deltas(slice(None), labels, torch.float64)
        if smoothing:
            values, points = arrays.envelopes(rows, labels, deltas, smoothing)
        else:
            values, _, points = arrays.corners(rows, labels, deltas)
        good = torch.isfinite(rows).all(dim=1) & (scores > -torch.inf).any(dim=1)
        return torch.where(good, values, torch.nan), points.to(scores.dtype)

    def _check(self, scores: torch.Tensor, labels: torch.Tensor) -> None:
        for name, given in (("scores", scores), ("labels", labels)):
            if not isinstance(given, torch.Tensor):
                raise ValueError(f"{name} must be a tensor, got {type(given).__name__}")
        if not scores.is_floating_point() or scores.ndim == 0:
            raise ValueError(
                f"scores must be a tensor of real numbers, a row per example, got {scores.dtype} "
                f"of shape {tuple(scores.shape)}"
            )
        classes = 0 if scores.ndim == 1 else 1
        m, others = scores.shape[classes], scores.shape[:classes] + scores.shape[classes + 1 :]
        if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
            raise ValueError(f"labels must be integers, got {labels.dtype}")
        if labels.shape != others:
            raise ValueError(
                f"labels must have shape {tuple(others)} for scores of shape "
                f"{tuple(scores.shape)}, got {tuple(labels.shape)}"
            )
        if labels.device != scores.device:
            raise ValueError(f"labels must be on {scores.device}, as scores, got {labels.device}")
        self.loss.check(m)
        if self.weight is not None and self.weight.shape[0] != m:
            raise ValueError(
                f"weight must have a number for each of the {m} classes, got {len(self.weight)}"
            )
        if labels.device.type == "cpu" and labels.numel():
            counted = labels.long()
            counted = counted[counted != self.ignore_index]
            wrong = counted[(counted < 0) | (counted >= m)]
            if wrong.numel():
                raise ValueError(
                    f"labels must be between 0 and {m - 1} or {self.ignore_index}, "
                    f"got {int(wrong[0])}"
                )


class _Envelope(torch.autograd.Function):
    """The loss of a batch; the backward pass multiplies the gradients found with it."""

    @staticmethod
    def forward(ctx: Any, scores: Any, labels: Any, module: MarginLoss) -> Any:
        numbers, gradients = module.examples(scores, labels)
        ctx.reduction = module.reduction
        if module.reduction == "none":
            ctx.save_for_backward(gradients)
            return numbers[:, 0].contiguous()
        total, count = numbers.sum(dim=0).unbind()
        if module.reduction == "sum":
            ctx.save_for_backward(gradients)
            return total.clone()
        ctx.save_for_backward(gradients, count)
        return total / count

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        if torch.is_grad_enabled():  # the points would be taken for constants
            raise RuntimeError("MarginLoss has no second derivatives: create_graph must be False")
        gradients, *count = ctx.saved_tensors
        if count:
            gradient = gradient / count[0]
        elif ctx.reduction == "none":
            gradient = gradient.to(gradients.dtype)[:, None]
        return gradients * gradient, None, None


def _by_oracles(
    scores: torch.Tensor, labels: torch.Tensor, loss: SimplexLoss, smoothing: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """By the oracles for NumPy arrays, which share the memory of tensors on the CPU."""
    n, m = scores.shape
    found, points = torch.empty(n, dtype=torch.float64), torch.empty_like(scores, device="cpu")
    step = max(1, _ENTRIES // m)
    for block in (slice(start, start + step) for start in range(0, n, step)):
        rows: FloatArray = scores[block].double().cpu().numpy()
        of = labels[block].cpu().numpy().astype(np.intp)
        lost = np.logical_not(np.isfinite(rows).all(axis=1))
        if lost.any():
            rows = np.where(rows == -np.inf, _LOWEST, rows)
            lost = np.logical_not(np.isfinite(rows).all(axis=1)) | (rows <= _LOWEST).all(axis=1)
            rows = np.where(lost[:, None], 0.0, rows)
        if smoothing:
            values, alpha = loss.smoothed(rows, of, smoothing)
        else:
            alpha, values = loss.vertices(rows, of)
        values[lost], alpha[lost] = np.nan, np.nan
        found[block], points[block] = torch.from_numpy(values), torch.from_numpy(alpha)
    return found.to(scores.device), points.to(scores.device)


def _without_infinite(scores: torch.Tensor) -> torch.Tensor:
    lowest = max(torch.finfo(scores.dtype).min, _LOWEST)
    return torch.where(scores == -torch.inf, lowest, scores)
