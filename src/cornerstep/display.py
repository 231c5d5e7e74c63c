"""How estimators show themselves in notebooks: the certificate above scikit-learn's diagram."""

from __future__ import annotations

from typing import Any

from cornerstep.certificates import certificate
from cornerstep.optimiser.result import summary_html


def certificate_html(estimator: Any) -> str:
    """The certificate of a fitted estimator as a small table; nothing before it is fitted."""
    if not hasattr(estimator, "trace_"):
        return ""
    proof = certificate(estimator)
    worst = ", worst machine" if len(proof.names) > 1 else ""
    rows = {
        "certificate": proof.sentence,
        proof.quantity + worst: f"{proof.value:.9g}",
        "bound" + worst: f"{proof.bound:.9g}",
        "gap": f"{proof.gap:.3g} ({100 * proof.relative_gap:.2g} %)",
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
