"""``check_loss``: do the oracles of a loss belong to one set B?

With ``alpha(beta) = (1'beta) e_y - beta`` a direction q of dual points has
``<q, alpha(beta)> = <beta, q_y - q>``, so that :meth:`maximum` is the support function of the dual
points too: a point is one of them if no direction says otherwise, and a the nearest to p if
``<p - a, alpha> <= <p - a, a>`` for all.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.multiclass.simplex_loss import SimplexLoss

_SLACK = 1e-9  # of the sizes that are compared


def check_loss(
    loss: SimplexLoss, n_classes: int, *, n_trials: int = 10, random_state: int = 0
) -> None:
    """Try the oracles of a loss on random margins; raise an error that names the wrong one.

    For margins of several sizes, with and without ties, for every label: ``argmax`` must return
    numbers >= 0 that attain ``maximum``; no other beta that it ever returns may be better, which
    makes ``maximum`` convex; ``maximum`` must grow with the margins in proportion, and never be
    negative.  ``projection``, if there is one, must return dual points, none of which is nearer,
    and the conjugate must agree with the loss.  Rows must not depend on other rows.

    Parameters
    ----------
    loss : SimplexLoss
        Costs per example are left out.
    n_classes : int
    n_trials : int, default=10
        Margins of each label to try.
    random_state : int, default=0

    Raises
    ------
    AssertionError
        With the name of the oracle that is probably wrong.
    """
    if loss.per_example:
        loss = copy.copy(loss)
        loss.costs, loss.per_example = None, False
    loss.check(n_classes)
    mass = loss.mass(n_classes)
    rng = np.random.default_rng(random_state)
    for y in range(n_classes):
        z = _points(rng, n_classes, n_trials)
        z[:, y] = 0.0
        labels = np.full(len(z), y)
        beta = _check_argmax(loss, z, labels, mass)
        if loss.has_projection:
            _check_projection(loss, z, labels, beta, mass)
            _check_conjugate(loss, z, labels, mass)


def _points(rng: Any, m: int, count: int) -> FloatArray:
    """Rows of several sizes, ties among them, and what lies between two of them."""
    sizes = 10.0 ** rng.integers(-2, 3, (count, 1))
    points = rng.standard_normal((count, m)) * sizes + rng.choice([-1.0, 0.0, 1.0], (count, 1))
    ties = rng.integers(-2, 3, (count, m)).astype(float)
    points = np.vstack([points, ties, np.ones(m), -np.ones(m), np.zeros(m)])
    return np.vstack([points, 0.5 * (points + points[rng.permutation(len(points))])])


def _complain(oracle: str, why: str) -> None:
    raise AssertionError(f"{oracle} is probably wrong: {why}")


def _check_argmax(loss: SimplexLoss, z: FloatArray, labels: IntArray, mass: float) -> FloatArray:
    value, beta = (loss._ask(oracle, z, labels) for oracle in ("maximum", "argmax"))
    slack = _SLACK * mass * np.abs(z).max(axis=1)
    if (value < -slack).any():
        _complain("maximum", f"it is {value.min():.6g} < 0: B needs a beta that is 0 off the label")
    attained = (beta * z).sum(axis=1)
    worst = int(np.argmax(np.abs(attained - value) - slack))
    if abs(attained[worst] - value[worst]) > slack[worst]:
        _complain(
            "argmax or maximum",
            f"<argmax, z> is {attained[worst]:.9g}, maximum {value[worst]:.9g}, at z = {z[worst]}",
        )
    others = beta @ z.T - value  # of each beta at each z
    k, at = np.unravel_index(int(np.argmax(others - slack)), others.shape)
    if others[k, at] > slack[at]:
        _complain(
            "argmax",
            f"at z = {z[at]} its value {value[at]:.9g} is less than that of {beta[k]}, which it "
            f"returned at {z[k]}",
        )
    for scale in (0.1, 7.0):
        if (np.abs(loss._ask("maximum", scale * z, labels) - scale * value) > scale * slack).any():
            _complain("maximum", f"it is not {scale} times as large at margins {scale} times z")
    alone = [loss._ask("maximum", z[k : k + 1], labels[:1])[0] for k in range(len(z))]
    if (np.abs(alone - value) > slack).any():
        _complain("maximum", "the value of a row depends on the other rows")
    return beta


def _check_projection(
    loss: SimplexLoss, points: FloatArray, labels: IntArray, beta: FloatArray, mass: float
) -> None:
    near, y = loss._ask("projection", points, labels), labels[0]
    directions = np.vstack([points - near, points, -np.eye(points.shape[1])])
    at = np.full(len(directions), y)
    margins = directions[:, [y]] - directions
    reach = loss._ask("maximum", margins, at)
    slack = _SLACK * (mass + np.abs(points).max()) * (1.0 + np.abs(directions).max(axis=1))
    if (np.abs(near.sum(axis=1)) > _SLACK * (mass + np.abs(points).max())).any():
        _complain("projection", "it returns points that do not sum to 0")
    if (near @ directions.T > reach + slack).any():
        _complain("projection", "it returns points that are not (1'beta) e_y - beta with beta in B")
    count = len(points)
    if (reach[:count] > (directions[:count] * near).sum(axis=1) + slack[:count]).any():
        _complain("projection", "there is a dual point that is nearer")
    corners = -beta
    corners[:, y] += beta.sum(axis=1)
    if (np.abs(loss._ask("projection", corners, labels) - corners) > _SLACK * mass).any():
        _complain("projection", "it moves dual points of argmax")


def _check_conjugate(loss: SimplexLoss, z: FloatArray, labels: IntArray, mass: float) -> None:
    value, gradient = loss.value(z, labels), loss.subgradient(z, labels)
    conjugate = loss.conjugate(gradient, labels, _SLACK)
    slack = 2 * _SLACK * mass * (1.0 + np.abs(z).max(axis=1))
    if not (np.abs(value + conjugate - (z * gradient).sum(axis=1)) <= slack).all():
        _complain("conjugate", "with the loss it is not <s, g> at a subgradient g")
    if not (value[:, None] + conjugate >= z @ gradient.T - slack[:, None]).all():
        _complain("conjugate", "with the loss it is less than <s, g> somewhere")
