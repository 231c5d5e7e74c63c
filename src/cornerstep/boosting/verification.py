"""Soft-margin boosting recomputed: what an ensemble claims, from the data it was trained on.

Margins follow from the trees and their weights, the soft margin from the margins, and the bound is
the largest edge over all trees of the class under the model's own distribution d,

``max over w of rho(A w) <= max_j (A'd)_j``   for every d in P_nu.

d is made of units of 2^-52, so that the search repeats that of the training to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cornerstep.boosting.binning import Binning, Tree
from cornerstep.boosting.learners.trees import combine, evaluate
from cornerstep.boosting.machine import Machine, mean_importances
from cornerstep.boosting.parameters import share_of_weight
from cornerstep.boosting.problem import SoftMargin
from cornerstep.boosting.training import tree_learner
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.learning.certificates import Certificate
from cornerstep.learning.claims import CLOSE, Recomputed
from cornerstep.learning.verification import examples_of

_UNSEARCHED = 1.0  # the bound of a machine that was interrupted before its first search
_SINGLE = 1e-6  # edges of other hypotheses than trees are compared in single precision


def recompute(
    clf: Any, X: Any, y: Any, sample_weight: Any, claimed: Certificate, problems: list[str]
) -> Recomputed:
    """Soft margins and bounds of the machines of an ensemble; what is wrong is added."""
    X, labels, weights = examples_of(clf, X, y, sample_weight, problems)
    if len(clf.margins_) != labels.size:
        raise ValueError(
            f"the model was trained on {len(clf.margins_)} examples, the data has {labels.size}"
        )
    if not isinstance(clf.n_features_in_, int) or X.shape[1] != clf.n_features_in_:
        raise ValueError(
            f"the model was trained on {clf.n_features_in_} features, the data has {X.shape[1]}"
        )
    _check_copies(clf, labels.size, problems)
    _check_class(clf, problems)
    X = np.ascontiguousarray(X, dtype=np.float64)
    if not problems:
        checks = [_MachineCheck(clf, k, X, labels, weights, problems) for k in _machines(clf)]
    if problems:  # nothing is left to compare, or not with each other
        none = np.full(len(clf._machines), np.nan)
        return Recomputed(none, none, none, "nothing: the model contradicts itself")
    _check_importances(clf, X, labels, weights, problems)
    found = Recomputed(
        np.array([check.value for check in checks]),
        np.array([check.bound for check in checks]),
        np.array([check.rounding for check in checks]),
        "the largest edge under the model's distribution",
        attained=False,  # each machine has looked at this itself
    )
    if clf._kind != "tree" and not problems:
        _check_values(clf, found, problems)
        if not problems:
            raise ValueError(
                "the bound of an ensemble of other classifiers than the library's own trees rests "
                "on them and cannot be found anew; all else the model claims was recomputed, and "
                "holds"
            )
    return found


def _machines(clf: Any) -> range:
    return range(len(clf._machines))


def _same(one: Any, other: Any) -> bool:
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))


def _same_hypotheses(one: Any, other: Any) -> bool:
    if len(one) != len(other):
        return False
    return all(
        a is b or (isinstance(a, Tree) and isinstance(b, Tree) and all(map(_same, a, b)))
        for a, b in zip(one, other, strict=True)
    )


def _check_copies(clf: Any, n: int, problems: list[str]) -> None:
    """What is shown of the machines must be what they have, which is what predicts."""
    machines = clf._machines
    if len(machines) != (1 if clf.classes_.size == 2 else clf.classes_.size):
        problems.append("the machines are not one for two classes, or one for each of more")
        return
    single = len(machines) == 1
    pairs = {
        "estimator_weights_": (clf.estimator_weights_, [m.weights for m in machines]),
        "estimators_": (clf.estimators_, [m.hypotheses for m in machines]),
    }
    for name, (shown, own) in pairs.items():
        parts = [shown] if single else list(shown)
        same = _same if name == "estimator_weights_" else _same_hypotheses
        if len(parts) != len(own) or not all(map(same, parts, own)):
            problems.append(f"{name} are not those of the machines that predict")
    shape = (n,) if single else (n, len(machines))
    arrays = {"margins_": "margins", "example_weights_": "distribution"}
    for name, own_name in arrays.items():
        own_parts = [getattr(m, own_name) for m in machines]
        whole = own_parts[0] if single else np.stack(own_parts, axis=-1)
        shown = np.asarray(getattr(clf, name))
        if shown.shape != shape or not _same(shown, whole):
            problems.append(f"{name} is not what the machines have")
    if clf.machines_ != [machine.proof for machine in machines]:
        problems.append("machines_ are not what the machines that predict have")
    for machine in machines:
        last = machine.stages[-1]
        if not (_same_hypotheses(last[1], machine.hypotheses) and _same(last[2], machine.weights)):
            problems.append("the last stage of a machine is not its ensemble")


def _check_class(clf: Any, problems: list[str]) -> None:
    """The parameters must name the class of hypotheses that the ensemble is made of."""
    kind = "tree" if isinstance(clf.weak_learner, str) else "classifier"
    given = clf._kind == "given"
    if bool(clf._reweighted) != given or clf._kind not in (kind, "given"):
        problems.append(f"weak_learner is {clf.weak_learner!r}, which the ensemble is not made of")
        return
    if bool(clf.bound_is_exact_) != (given or (kind == "tree" and clf.max_depth <= 2)):
        problems.append(f"bound_is_exact_ is {clf.bound_is_exact_}, which the search was not")
    if clf._kind == "tree":
        trees = [tree for machine in clf._machines for tree in machine.hypotheses]
        for tree in trees:
            if not isinstance(tree, Tree) or not _is_heap(tree, clf.n_features_in_):
                problems.append("a hypothesis is not a complete tree over the features")
                return
        depth = max(int(np.log2(tree.leaves.size)) for tree in trees)
        if depth > clf.max_depth:
            problems.append(f"max_depth is {clf.max_depth}, but a tree has depth {depth}")


def _is_heap(tree: Tree, n_features: int) -> bool:
    features, thresholds, leaves = map(np.asarray, tree)
    size = leaves.size
    shaped = size >= 2 and size & (size - 1) == 0
    shaped = shaped and features.shape == thresholds.shape == (size - 1,) == (leaves.shape[0] - 1,)
    return bool(
        shaped
        and features.dtype.kind == "i"
        and ((features >= 0) & (features < n_features)).all()
        and (abs(leaves) == 1).all()
    )


class _MachineCheck:
    """One machine: its weights, margins, distribution, soft margin and bound, recomputed."""

    def __init__(
        self,
        clf: Any,
        k: int,
        X: FloatArray,
        labels: IntArray,
        weights: FloatArray,
        problems: list[str],
    ) -> None:
        machine: Machine = clf._machines[k]
        self.which = f" of the machine {clf.classes_[k]!s}" if len(clf._machines) > 1 else ""
        self.problems = problems
        used = weights > 0
        signs = np.where(labels == (1 if len(clf._machines) == 1 else k), 1.0, -1.0)
        if clf.nu != "auto" and clf.nu_ != clf.nu and k == 0:
            problems.append(f"nu_ is {clf.nu_!r}, but nu is {clf.nu!r}")
        share = share_of_weight(clf.nu_ if clf.nu == "auto" else clf.nu, weights)
        soft = SoftMargin(weights[used], share * float(weights.sum()), float(clf.atol))
        self.rounding = 2.0 * soft.rounding(len(machine.hypotheses))
        self.value = self._soft_margin(machine, X, signs, used, soft)
        d = self._distribution(machine.distribution, used, soft)
        rows = np.ascontiguousarray(X[used])
        if clf._kind == "tree":
            self.bound = self._searched(clf, machine, rows, signs[used], weights[used], d)
        else:
            known = evaluate(machine.hypotheses, rows) * signs[used] @ d
            self.bound = self._at_least(machine, float(known.max()), _SINGLE)

    def _soft_margin(
        self, machine: Machine, X: FloatArray, signs: FloatArray, used: Any, soft: SoftMargin
    ) -> float:
        w = machine.weights
        if w.shape != (len(machine.hypotheses),) or not (
            (w >= 0).all() and abs(w.sum() - 1) <= self.rounding
        ):
            self.problems.append(f"the weights{self.which} are no weights: >= 0 and of sum 1")
            return np.nan
        margins = signs * combine(machine.hypotheses, w, X)
        if not (abs(margins - machine.margins) <= self.rounding).all():
            self.problems.append(f"margins_{self.which} are not those of its hypotheses")
        return soft.value(margins[used]) - soft.rounding(w.size)

    def _distribution(self, d: FloatArray, used: Any, soft: SoftMargin) -> FloatArray:
        caps = soft.caps * (1 + self.rounding)
        inside = (d >= 0).all() and (d[used] <= caps).all() and not d[~used].any()
        if not (inside and abs(d.sum() - 1) <= self.rounding):
            self.problems.append(
                f"example_weights_{self.which} are no distribution within the caps of nu"
            )
        return d[used]

    def _searched(
        self,
        clf: Any,
        machine: Machine,
        rows: FloatArray,
        signs: FloatArray,
        weights: FloatArray,
        d: FloatArray,
    ) -> float:
        """The largest edge over the trees of the parameters, and over those of the ensemble."""
        binning = Binning(rows, weights, clf.max_bins)
        if not all(binning.has(tree) for tree in machine.hypotheses):
            self.problems.append(
                f"a tree{self.which} has a threshold that max_bins={clf.max_bins} does not give"
            )
        if machine.bound == _UNSEARCHED:  # as large as any edge: true, whatever was searched
            return _UNSEARCHED
        learner, groups = tree_learner(clf.max_depth, clf.max_bins, 1)(rows, signs, weights)
        found = learner.query(np.bincount(groups, weights=d)).edge
        if not clf.bound_is_exact_:  # a search that is not exact may miss what the ensemble has
            known = evaluate(machine.hypotheses, rows) * signs @ d
            return self._at_least(machine, max(found, float(known.max())), 0.0)
        bound = min(found + 0.5 * self.rounding, 1.0)
        if machine.bound > bound + self.rounding:
            self.problems.append(f"the bound{self.which} is {bound:.9g}, not {machine.bound:.9g}")
        return bound

    def _at_least(self, machine: Machine, edge: float, slack: float) -> float:
        """The claimed bound, if it is not refuted by an edge: hypotheses are not all kept."""
        return max(machine.bound, edge - slack)


def _check_values(clf: Any, found: Recomputed, problems: list[str]) -> None:
    for k, machine in enumerate(clf._machines):
        slack = CLOSE * abs(found.values[k]) + found.rounding[k]
        if not abs(found.values[k] - machine.soft_margin) <= slack:
            problems.append(f"the soft margin is {found.values[k]:.9g}, not {machine.soft_margin}")
        if not found.bounds[k] <= machine.bound + slack:
            problems.append(
                f"the bound is {machine.bound:.9g}, but a member of the ensemble has the edge "
                f"{found.bounds[k]:.9g}"
            )


def _check_importances(
    clf: Any, X: FloatArray, labels: IntArray, weights: FloatArray, problems: list[str]
) -> None:
    told = mean_importances(clf._machines, X, labels, weights)
    shown = clf._importances
    if (told is None) != (shown is None) or (
        told is not None
        and not (np.shape(shown) == told.shape and np.allclose(shown, told, rtol=CLOSE, atol=CLOSE))
    ):
        problems.append("feature_importances_ are not those of the ensemble")
