"""What a trained soft-margin ensemble answers: scores, classes, stages, importances, margins."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted, validate_data

from cornerstep.boosting.machine import Machine
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.data.rows import is_dask
from cornerstep.learning.display import draw_margins

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class TrainedEnsemble:
    """One machine for two classes, or one for each class against the rest."""

    classes_: npt.NDArray[Any]
    _machines: list[Machine]
    _importances: FloatArray | None

    @property
    def feature_importances_(self) -> FloatArray:
        """Shares of the weighted gains in edge of the splits on each feature.

        For other weak learners than trees the weighted mean of theirs.
        """
        check_is_fitted(self)
        if self._importances is None:
            raise AttributeError("the weak learner has no feature_importances_")
        return self._importances

    def decision_function(self, X: Any) -> FloatArray:
        """``sum_j w_j h_j(x)`` in [-1, 1]: for the second class, or a column for each class.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        array of shape (n,) or (n, n_classes)
        """
        check_is_fitted(self)
        if is_dask(X):
            from cornerstep.data.dask import by_blocks

            wide = len(self._machines) > 1
            return by_blocks(X, self.decision_function, np.float64, self.classes_.size * wide)
        X = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        return _join([machine.scores(X) for machine in self._machines])

    def staged_decision_function(self, X: Any) -> Iterator[FloatArray]:
        """The decision function of the best ensemble so far, round by round as it got better.

        Later stages of long runs are thinned out; ``staged_rounds_`` says which rounds they are.

        Parameters
        ----------
        X : array of shape (n, d)

        Yields
        ------
        array of shape (n,) or (n, n_classes)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        last: list[Any] = [None] * len(self._machines)
        for stage in zip_longest(*(machine.staged_scores(X) for machine in self._machines)):
            last = [
                new[1] if new is not None else old for new, old in zip(stage, last, strict=True)
            ]
            yield _join(last)

    @property
    def staged_rounds_(self) -> IntArray:
        """The round of each stage (for more than two classes: of the longest machine)."""
        check_is_fitted(self)
        longest = max(self._machines, key=lambda machine: len(machine.stages))
        return np.array([stage[0] for stage in longest.stages])

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class with the largest score.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        array of shape (n,)
        """
        if is_dask(X):
            from cornerstep.data.dask import by_blocks

            return by_blocks(X, self.predict, self.classes_.dtype, 0)
        return self._decide(self.decision_function(X))

    def staged_predict(self, X: Any) -> Iterator[npt.NDArray[Any]]:
        """The predictions of the best ensemble so far, stage by stage.

        Parameters
        ----------
        X : array of shape (n, d)

        Yields
        ------
        array of shape (n,)
        """
        for scores in self.staged_decision_function(X):
            yield self._decide(scores)

    def _decide(self, scores: FloatArray) -> npt.NDArray[Any]:
        if scores.ndim == 1:
            return self.classes_[(scores > 0).astype(np.int64)]
        return self.classes_[scores.argmax(axis=1)]

    def plot_margins(self, ax: Axes | None = None) -> Axes:
        """Draw the distribution of the training margins and the soft margin; return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional

        Returns
        -------
        matplotlib axes
        """
        check_is_fitted(self)
        names = [""] if len(self._machines) == 1 else [f", {name}" for name in self.classes_]
        machines = dict(zip(names, self._machines, strict=True))
        ax = draw_margins({f"margins{name}": m.margins for name, m in machines.items()}, ax)
        for line, machine in zip(ax.get_lines()[-len(machines) :], self._machines, strict=True):
            text = f"soft margin {machine.soft_margin:.3f}, bound {machine.bound:.3f}"
            ax.axvspan(machine.soft_margin, machine.bound, color=line.get_color(), alpha=0.3)
            ax.axvline(machine.soft_margin, color=line.get_color(), linestyle="--", label=text)
        ax.legend()
        return ax


def _join(scores: list[FloatArray]) -> FloatArray:
    return scores[0] if len(scores) == 1 else np.column_stack(scores)
