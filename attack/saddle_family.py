"""``extragradient``: bilinear saddle points over two domains, in both geometries.

Judged: both points against the inequalities of their domains, ``max_z L(w, z)`` and
``min_w L(w, z)`` in long double, and the bounds of two runs against each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from attack.draws import chance, one_of, scale
from attack.exact import EPS, LONG, real
from attack.judge import Judge
from attack.regions import PROJECTING, region, simplex
from cornerstep import extragradient
from cornerstep.saddle import Bilinear


def attack(rng: Any, judge: Judge) -> None:
    """One saddle point, twice."""
    entropic = chance(rng, 0.4)
    kinds = (simplex,) if entropic else PROJECTING
    P, D = (judge.call(region, rng, int(rng.integers(1, 6)), scale(rng), kinds) for _ in range(2))
    s = scale(rng)
    F, a, c = (s * rng.standard_normal(shape) for shape in ((P.n, D.n), P.n, D.n))
    if chance(rng, 0.3):
        F = np.round(F)
    given = sp.csr_array(F) if chance(rng, 0.2) else F
    judge.says(P.domain, D.domain, f"s={s}")
    saddle = judge.call(Bilinear, given, a, c)
    F, a, c = real(F), real(a), real(c)
    context, found = list(judge.context), []
    for _ in range(2):
        how: dict[str, Any] = {
            "geometry": "entropic" if entropic and chance(rng, 0.7) else "euclidean",
            "max_iter": int(one_of(rng, 0, 1, 10, 200)),
            "tol": 0.0 if chance(rng, 0.5) else float(s * 10 ** -rng.uniform(1, 10)),
        }
        judge.context = [*context, str(how)]
        result = judge.call(extragradient, saddle, P.domain, D.domain, **how)
        numbers = [result.value, result.gap, result.lower_bound]
        if not judge.that(not np.isnan(numbers).any() and np.isfinite(result.value), f"{numbers}"):
            return
        w, z = real(result.x), real(result.dual)
        judge.at_most(P.excess(w), 1e-9, "w lies in its domain")
        judge.at_most(D.excess(z), 1e-9, "z lies in its domain")
        upper = -D.minimum(-(F.T @ w + c)) - (a * w).sum()
        lower = P.minimum(F @ z - a) + (c * z).sum()
        size = (np.abs(F).max() * P.size * D.size * P.n * D.n + np.abs(a).max() * P.size * P.n
                + np.abs(c).max() * D.size * D.n)  # fmt: skip
        slack = 1e-320 + 1e-9 * max(P.excess(w), D.excess(z), 0) * size
        if np.isinf(result.gap):
            continue
        judge.at_most(0.0, result.gap, "gap >= 0")
        judge.at_most(abs(upper - result.value), result.gap, "value is max_z L(w, z)", slack)
        judge.at_most(upper - lower, result.gap, "gap >= true gap", slack + 8 * EPS * size)
        judge.at_most(result.lower_bound, result.value, "lower_bound <= value")
        if result.status.value == "solved":
            judge.at_most(result.gap, how["tol"], "solved means gap <= tol")
        off = 4 * max(P.excess(w), 0) * P.size * np.abs(D.size * np.abs(F).sum() + np.abs(a)).sum()
        found.append((upper + slack + off, LONG(result.lower_bound)))
    judge.context = context
    if found:
        best, bound = min(pair[0] for pair in found), max(pair[1] for pair in found)
        judge.at_most(bound, best, "lower_bound <= every upper value", 4 * EPS * abs(best))
