"""``SoftMarginBoostingClassifier``: boosting to a certified soft margin, for scikit-learn."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import zip_longest
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    check_is_fitted,
    has_fit_parameter,
    validate_data,
)

from cornerstep.display import CertifiedDisplay, draw_margins
from cornerstep.estimators.boosting_machine import (
    Machine,
    Recipe,
    classifier_learner,
    finite_learner,
    tree_learner,
)
from cornerstep.estimators.targets import classes_and_labels, example_weights
from cornerstep.optimiser.result import Status, Traces
from cornerstep.problems.boosting import METHODS, SECONDARIES, STEPS
from cornerstep.problems.weak_learners import Vote
from cornerstep.vectors import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class SoftMarginBoostingClassifier(CertifiedDisplay, ClassifierMixin, BaseEstimator):
    """``max over w in the simplex of min over d in P_nu of sum_ij d_i y_i h_j(x_i) w_j``, proven.

    The objective is the *soft margin* of the ensemble ``sum_j w_j h_j``: the mean margin of the nu
    examples with the smallest ones (P_nu: distributions with ``d_i <= 1/nu``).  After ``fit`` the
    largest soft margin that any ensemble of the weak learner's hypotheses has is known to lie
    between ``soft_margin_`` and ``bound_``.  More than two classes: one machine for each against
    the rest.

    Parameters
    ----------
    method : {'mlpboost', 'lpboost', 'erlpboost', 'cerlpboost'}
        MLPBoost takes the better of a Frank-Wolfe step and a second candidate; LPBoost and
        ERLPBoost re-optimise all weights (ERLPBoost with an entropy); C-ERLPBoost takes Frank-Wolfe
        steps only.
    nu : float or int, default=0.1
        A share of the examples in (0, 1], or a count >= 1 given as an int.
    tol : float, default=0.01
        Stop when ``bound_ - soft_margin_ <= tol``.
    weak_learner : 'tree' or a scikit-learn classifier, default='tree'
        'tree': the stump or depth-2 tree of largest edge, exactly.  A classifier must take
        ``sample_weight``; its decisions and, if it has ``predict_proba``, the confidence-rated
        ``2 p - 1`` become hypotheses, and ``bound_`` rests on its finding the largest edge.
    max_depth : int, default=2
        Of the trees.  Beyond 2 the search is greedy: exact trees of depth 2 on top of each other.
    max_bins : int, default=255
        Of a feature.  With no more distinct values than that all thresholds are searched, otherwise
        those at quantiles.
    step : {'short', 'open-loop', 'line-search', 'pairwise', 'blended-pairwise'}
        Frank-Wolfe step of MLPBoost and C-ERLPBoost.
    secondary : {'lp', 'entropic'} or callable, default='lp'
        MLPBoost's second candidate: the weights of largest soft margin, or of largest smoothed
        soft margin, over the hypotheses at hand; or ``secondary(margins, problem)`` that answers
        weights, ``margins[j, i] = y_i h_j(x_i)`` and ``problem`` a
        :class:`~cornerstep.problems.soft_margin.SoftMargin`.
    max_iter : int, optional
        Rounds; None takes the bound of the theory, ``32 ln(1/nu) / tol²`` for a share nu.
    time_limit : float, optional
        Seconds.
    class_weight : dict or 'balanced', optional
    warm_start : bool, default=False
        Start from the ensemble of the last fit if the classes are the same.
    random_state : int, RandomState or None
        For the weak learner, if it draws random numbers.
    n_jobs : int, optional
        Threads for the tree search and the matrix products; None means 1 for the search, -1 all
        cores.
    verbose : {0, 1, 2}, default=0

    Attributes
    ----------
    classes_ : array
    soft_margin_, bound_, gap_ : float, or one for each class if there are more than two
        The certificate, recomputed at the end from the data in float64.
    bound_is_exact_ : bool
        Whether ``bound_`` holds for the whole class of hypotheses.  If not, it holds as far as the
        weak learner finds the largest edge.
    estimators_ : list
        The hypotheses with weight: ``Tree(features, thresholds, leaves)`` heaps, or votes of fitted
        classifiers.  A list of lists for more than two classes.
    estimator_weights_ : array, or a list of arrays
    margins_ : array of shape (n,) or (n, n_classes)
        ``y_i sum_j w_j h_j(x_i)`` of the training examples.
    example_weights_ : array of the same shape
        The final distribution d: it attains ``bound_``.
    feature_importances_ : array of shape (n_features,)
        Shares of the weighted gains in edge of the splits on each feature.
    status_ : Status
        Why training stopped; the first machine that was not solved speaks for all.
    n_iter_ : int
    trace_ : Trace, or a list of them
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from cornerstep import SoftMarginBoostingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = SoftMarginBoostingClassifier(nu=0.2, tol=0.05).fit(X, y)
    >>> clf.status_.value, clf.gap_ <= 0.05, clf.bound_is_exact_
    ('solved', True, True)
    """

    _machines: list[Machine]
    _kind: str
    _reweighted: bool

    def __init__(
        self,
        method: str = "mlpboost",
        *,
        nu: float = 0.1,
        tol: float = 0.01,
        weak_learner: Any = "tree",
        max_depth: int = 2,
        max_bins: int = 255,
        step: str = "short",
        secondary: Any = "lp",
        max_iter: int | None = None,
        time_limit: float | None = None,
        class_weight: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.method = method
        self.nu = nu
        self.tol = tol
        self.weak_learner = weak_learner
        self.max_depth = max_depth
        self.max_bins = max_bins
        self.step = step
        self.secondary = secondary
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SoftMarginBoostingClassifier:
        """Train on examples X with labels y.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            A weight of 2 is the same as the example given twice.

        Returns
        -------
        self
        """
        self._check_parameters()
        earlier = (self.classes_, self.n_features_in_) if hasattr(self, "_machines") else None
        X, labels, weights = self._check_data(X, y, sample_weight)
        starts: list[Any] = [None] * self._n_machines()
        if self.warm_start and earlier is not None and not self._reweighted:
            same = np.array_equal(earlier[0], self.classes_) and earlier[1] == self.n_features_in_
            if same and self._learner_kind() == self._kind:
                starts = [(machine.hypotheses, machine.weights) for machine in self._machines]
        if isinstance(self.weak_learner, str):
            build = tree_learner(self.max_depth, self.max_bins, self._n_threads())
        else:
            build = classifier_learner(self.weak_learner, check_random_state(self.random_state))
        self.bound_is_exact_ = isinstance(self.weak_learner, str) and self.max_depth <= 2
        self._kind, self._reweighted = self._learner_kind(), False
        self._train([build] * self._n_machines(), X, labels, weights, starts)
        return self

    def reweight(
        self, X: Any, y: Any, estimators: Any, sample_weight: Any = None
    ) -> SoftMarginBoostingClassifier:
        """Find the weights of largest soft margin for the members of a given ensemble.

        The bound holds for all weights of these members.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,)
        estimators : fitted ensemble with ``estimators_``, or list of fitted classifiers
            They predict the classes of y, or their numbers 0, 1, ... as the members of a forest do.
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        self._check_parameters()
        X, labels, weights = self._check_data(X, y, sample_weight)
        members = list(np.ravel(np.asarray(getattr(estimators, "estimators_", estimators), object)))
        if not members or not all(hasattr(member, "classes_") for member in members):
            raise ValueError(
                "estimators must be fitted classifiers, or an ensemble of them with estimators_, "
                f"got {estimators!r}"
            )
        targets = range(1, 2) if self.classes_.size == 2 else range(self.classes_.size)
        builds = [
            finite_learner([Vote(member, False, self._own_label(member, k)) for member in members])
            for k in targets
        ]
        self.bound_is_exact_, self._reweighted, self._kind = True, True, "given"
        self._train(builds, X, labels, weights, [None] * len(builds))
        return self

    def _own_label(self, member: Any, k: int) -> Any:
        """What a member calls the k-th class."""
        return self.classes_[k] if np.isin(member.classes_, self.classes_).all() else k

    def _check_parameters(self) -> None:
        _one_of("method", self.method, METHODS)
        _one_of("step", self.step, STEPS)
        if not callable(self.secondary):
            _one_of("secondary", self.secondary, (*SECONDARIES, "a callable"))
        if isinstance(self.weak_learner, str):
            _one_of("weak_learner", self.weak_learner, ("tree", "a scikit-learn classifier"))
        elif not (hasattr(self.weak_learner, "fit") and hasattr(self.weak_learner, "predict")):
            raise ValueError(
                "weak_learner must be 'tree' or a scikit-learn classifier, "
                f"got {self.weak_learner!r}"
            )
        elif not has_fit_parameter(self.weak_learner, "sample_weight"):
            raise ValueError(
                f"weak_learner must take sample_weight in fit, {self.weak_learner!r} does not"
            )
        if not _is_integer(self.max_depth, 1, 16):
            raise ValueError(f"max_depth must be an integer from 1 to 16, got {self.max_depth!r}")
        if not _is_integer(self.max_bins, 2, 65_535):
            raise ValueError(f"max_bins must be an integer from 2 to 65535, got {self.max_bins!r}")
        if not (isinstance(self.tol, Real) and 0 < self.tol < np.inf):
            raise ValueError(f"tol must be a positive number, got {self.tol!r}")
        share = isinstance(self.nu, Real) and not isinstance(self.nu, Integral) and 0 < self.nu <= 1
        if not (share or _is_integer(self.nu, 1, np.inf)):
            raise ValueError(
                f"nu must be a share in (0, 1] or a count >= 1 given as an int, got {self.nu!r}"
            )

    def _check_data(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[FloatArray, IntArray, FloatArray]:
        X, y = validate_data(self, X, y, dtype=np.float64, order="C", ensure_min_samples=2)
        self.classes_, labels = classes_and_labels(y)
        weights = example_weights(X, labels, self.classes_, sample_weight, self.class_weight)
        if np.unique(labels[weights > 0]).size < 2:
            raise ValueError(
                "sample_weight times class_weight must be positive in at least two classes"
            )
        return X, labels, weights

    def _n_machines(self) -> int:
        return 1 if self.classes_.size == 2 else self.classes_.size

    def _n_threads(self) -> int:
        if self.n_jobs is None:
            return 1
        from joblib import effective_n_jobs

        return int(effective_n_jobs(self.n_jobs))

    def _threads(self) -> AbstractContextManager[Any]:
        if self.n_jobs is None:
            return nullcontext()
        from threadpoolctl import threadpool_limits

        return threadpool_limits(self._n_threads())

    def _learner_kind(self) -> str:
        return "tree" if isinstance(self.weak_learner, str) else "classifier"

    def _share(self, weights: FloatArray) -> float:
        """Nu as a share of the total weight."""
        if not isinstance(self.nu, Integral):
            return float(self.nu)
        total = float(weights.sum())
        if self.nu > total * (1 + 1e-12):
            raise ValueError(
                f"nu must be at most the number of examples (their total weight), {total:g}, "
                f"got {self.nu!r}"
            )
        return min(float(self.nu) / total, 1.0)

    def _train(
        self, builds: list[Any], X: FloatArray, labels: IntArray, weights: FloatArray, starts: Any
    ) -> None:
        """Train the machines and read off the attributes."""
        begin = time.perf_counter()
        title = f"{type(self).__name__}, {self.method}"
        if not self.bound_is_exact_:
            title += " (the bound rests on the weak learner)"
        recipe = Recipe(
            self.method, self.step, self.secondary, self._share(weights), float(self.tol),
            self.max_iter, self.verbose, title,
        )  # fmt: skip
        machines: list[Machine] = []
        with self._threads():
            for k, (build, start) in enumerate(zip(builds, starts, strict=True)):
                positive = labels == (1 if len(builds) == 1 else k)
                signs = np.where(positive, 1.0, -1.0)
                left = self.time_limit
                if left is not None and machines:
                    left = max(left - (time.perf_counter() - begin), 0.0)
                if any(machine.status is Status.INTERRUPTED for machine in machines):
                    left = 0.0  # the classes that are left get a rough machine
                machines.append(recipe.train(build, X, signs, weights, left, start))
        self._machines = machines
        single = len(machines) == 1
        self.estimators_ = [m.hypotheses for m in machines]
        self.estimator_weights_: Any = [m.weights for m in machines]
        self.trace_: Any = Traces(m.trace for m in machines)
        if single:
            self.estimators_, self.estimator_weights_ = machines[0].hypotheses, machines[0].weights
            self.trace_ = machines[0].trace
        self.soft_margin_: Any = _scalar_or_array([m.soft_margin for m in machines])
        self.bound_: Any = _scalar_or_array([m.bound for m in machines])
        self.gap_: Any = _scalar_or_array([max(m.bound - m.soft_margin, 0.0) for m in machines])
        self.margins_ = (
            machines[0].margins if single else np.column_stack([m.margins for m in machines])
        )
        self.example_weights_ = (
            machines[0].distribution
            if single
            else np.column_stack([m.distribution for m in machines])
        )
        self.n_iter_ = max(m.n_iter for m in machines)
        unsolved = [m.status for m in machines if m.status is not Status.SOLVED]
        self.status_ = unsolved[0] if unsolved else Status.SOLVED
        self._importances = self._feature_importances(X, labels, weights)
        if self.status_ in (Status.ITERATION_LIMIT, Status.NO_PROGRESS):
            warnings.warn(
                f"{type(self).__name__} stopped at a gap of {np.max(self.gap_):.1e}, above "
                f"tol={self.tol:g}: {self.status_.message}",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _feature_importances(
        self, X: FloatArray, labels: IntArray, weights: FloatArray
    ) -> FloatArray | None:
        share = weights / weights.sum()
        total = np.zeros(X.shape[1])
        for k, machine in enumerate(self._machines):
            positive = labels == (1 if len(self._machines) == 1 else k)
            part = machine.importances(X, np.where(positive, share, -share))
            if part is None:
                return None
            total += part
        return total / len(self._machines)

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


def _one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def _is_integer(value: Any, least: float, most: float) -> bool:
    return (
        isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) <= most
    )


def _scalar_or_array(values: list[float]) -> Any:
    return float(values[0]) if len(values) == 1 else np.array(values)


def _join(scores: list[FloatArray]) -> FloatArray:
    return scores[0] if len(scores) == 1 else np.column_stack(scores)
