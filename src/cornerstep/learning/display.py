"""How estimators show themselves in notebooks: the certificate, and margins as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cornerstep.core.optional import optional_import
from cornerstep.core.types import FloatArray
from cornerstep.data.arrays import made_of_numpy, numpy_of
from cornerstep.learning.certificates import certificate
from cornerstep.optimiser.result import summary_html

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def certificate_html(estimator: Any) -> str:
    """The certificate of a fitted estimator as a small table; nothing before it is fitted."""
    if not hasattr(estimator, "machines_"):
        return ""
    proof = certificate(estimator)
    worst = ", worst machine" if len(proof.names) > 1 else ""
    rows = {
        "certificate": proof.sentence,
        proof.quantity + worst: f"{proof.value:.9g}",
        "bound" + worst: f"{proof.bound:.9g}",
        "gap": proof.shown_gap,
        "asked": proof.target,
        "iterations": f"{proof.n_iter:,}",
        "seconds": f"{proof.seconds:.3g}",
    }
    return summary_html(type(estimator).__name__, proof.status, rows)


class CertifiedDisplay:
    """For estimators: the certificate above scikit-learn's diagram."""

    def _repr_html_inner(self) -> str:
        shown: str = super()._repr_html_inner()  # type: ignore[misc]
        return certificate_html(self) + shown

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = certificate_html(self) + bundle["text/html"]
        return bundle


class MarginsDisplay:
    """For classifiers: the margins of examples as a picture."""

    def plot_margins(self, X: Any, y: Any, ax: Axes | None = None) -> Axes:
        """Draw the share of examples whose margin is at most z, for every z; return the axes.

        The margin is the score of the right class minus the best of the others (``y f(x)`` for two
        classes): where the curve crosses the line at 0 it shows the error.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : array of shape (n,)
        ax : matplotlib axes, optional

        Returns
        -------
        matplotlib axes
        """
        from sklearn.utils.validation import check_is_fitted

        from cornerstep.learning.measures import margins

        check_is_fitted(self)
        ax = draw_margins({"margins": margins(made_of_numpy(self), *numpy_of(X, y))}, ax)
        ax.axvline(0.0, color="0.6", linewidth=0.8)
        return ax


def draw_margins(margins: dict[str, FloatArray], ax: Axes | None = None) -> Axes:
    """One curve for each name: the share of examples at or below a margin."""
    if ax is None:
        with optional_import():
            import matplotlib.pyplot as plt

        ax = plt.figure().add_subplot()
    for name, values in margins.items():
        share = np.arange(1, values.size + 1) / values.size
        ax.step(np.sort(values), share, where="post", label=name)
    ax.set_xlabel("margin")
    ax.set_ylabel("share of examples at or below")
    ax.legend()
    return ax
