"""``SoftMarginBoostingClassifier``: boosting to a certified soft margin, for scikit-learn."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from cornerstep.boosting import choice, parameters, verification
from cornerstep.boosting.learners.classifiers import Vote
from cornerstep.boosting.long_work import SearchExpiredError
from cornerstep.boosting.machine import mean_importances
from cornerstep.boosting.model_file import SCHEMA
from cornerstep.boosting.parameters import share_of_weight
from cornerstep.boosting.prediction import TrainedEnsemble
from cornerstep.boosting.solvers.settings import TEXTBOOK, MethodSettings
from cornerstep.boosting.training import (
    Clock,
    Problem,
    Settings,
    Training,
    classifier_learner,
    constant,
    finite_learner,
    train,
    tree_learner,
)
from cornerstep.core.threads import n_workers
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.data.rows import is_dask
from cornerstep.learning.callbacks import Watchable, iteration_callback, watched
from cornerstep.learning.estimator import CertifiedEstimator, Importances
from cornerstep.learning.fitting import whole_fit
from cornerstep.learning.measures import class_scores
from cornerstep.learning.specs import Schema
from cornerstep.learning.targets import classes_and_labels, example_weights
from cornerstep.optimiser.loop import Callback, Stopping, deferred_interrupt
from cornerstep.optimiser.result import Status


class SoftMarginBoostingClassifier(TrainedEnsemble, Watchable, ClassifierMixin, CertifiedEstimator):
    r"""An ensemble of small trees whose worst margins are as large as can be, with a certificate.

    .. math:: \max_{w} \min_{d \in P_\nu} \sum_{ij} d_i\, y_i\, h_j(x_i)\, w_j

    The objective is the *soft margin* of the ensemble ``sum_j w_j h_j``: the mean margin of the nu
    examples with the smallest ones (P_nu: distributions with ``d_i <= 1/nu``).  After ``fit`` the
    largest soft margin that any ensemble of the weak learner's hypotheses has is known to lie
    between ``objective_`` and ``bound_``.  More than two classes: one machine for each against
    the rest.

    Parameters
    ----------
    solver : {'mlpboost', 'lpboost', 'erlpboost', 'cerlpboost'}
        MLPBoost takes the better of a Frank-Wolfe step and a second candidate; LPBoost and
        ERLPBoost re-optimise all weights (ERLPBoost with an entropy); C-ERLPBoost takes Frank-Wolfe
        steps only.
    nu : 'auto', float or int, default='auto'
        A share of the examples in (0, 1], or a count >= 1 given as an int.  'auto': the one of 0.1,
        0.3, 0.5 and 0.7 with the least log loss on examples held out (see
        :mod:`cornerstep.boosting.choice`), drawn by ``random_state``; 0.1 where nothing tells: for
        ``reweight``, Dask arrays and fewer than four examples of a class.
    tol, atol : float, default=0 and 0.01
        Stop when ``gap_ <= max(atol, tol * |objective_|)``.  ``atol`` also says how much the losses
        of the methods are smoothed, and is positive.
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
        :class:`~cornerstep.boosting.problem.SoftMargin`.
    textbook : bool, default=False
        The solvers exactly as published: one question, at the method's own distribution, and one
        hypothesis per round, none dropped, exact masters (vertices by the simplex method), the
        published stopping rule, and the last ensemble.  By default they do more per round, and need
        fewer rounds.
    max_iter : int, optional
        Rounds; None takes the bound of the theory, ``32 ln(1/nu) / tol²`` for a share nu.
    time_limit : float, optional
        Seconds, of all of ``fit``.  One too short for a first hypothesis gives one answer for all.
    class_weight : dict or 'balanced', optional
    warm_start : bool, default=False
        Start from the ensemble of the last fit if the classes are the same.
    random_state : int, RandomState or None
        For the examples that nu='auto' holds out (None: the same each time), and for the weak
        learner, if it draws random numbers.
    n_jobs : int, optional
        Threads of the tree search and of large matrix products; None means 1 for the search, and
        as many as BLAS is set to for products, -1 all cores.
    callback : function, optional
        Called with an :class:`~cornerstep.optimiser.Iterate` after every iteration; training stops
        when it returns True.
    verbose : {0, 1, 2}, default=0

    Attributes
    ----------
    classes_ : array
    nu_ : float or int
        nu, or what was chosen for it.
    machines_ : list of MachineProof
        What is proven of each machine: a class against the rest: objective, bound, gap, status,
        iterations, trace.
    objective_, bound_, gap_ : float
        The certificate of the machine with the largest gap: the soft margin, and a bound on it,
        recomputed at the end from the data in float64.
    relative_gap_ : float
        The largest gap divided by the objective.
    status_ : Status
        Why training stopped; *solved* only if all machines are.
    n_iter_ : int
        The largest of all machines.
    trace_ : Trace
        Of the machine with the largest gap.
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
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from cornerstep import SoftMarginBoostingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = SoftMarginBoostingClassifier(nu=0.2, atol=0.05).fit(X, y)
    >>> clf.status_.value, clf.gap_ <= 0.05, clf.bound_is_exact_
    ('solved', True, True)
    """

    nu_: Any
    _kind: str
    _reweighted: bool

    quantity = "soft margin"
    maximises = True
    minds_units = False

    def __init__(
        self,
        solver: str = "mlpboost",
        *,
        nu: str | float = "auto",
        tol: float = 0.0,
        atol: float = 0.01,
        weak_learner: Any = "tree",
        max_depth: int = 2,
        max_bins: int = 255,
        step: str = "short",
        secondary: Any = "lp",
        textbook: bool = False,
        max_iter: int | None = None,
        time_limit: float | None = None,
        class_weight: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        callback: Callback | None = None,
        verbose: int = 0,
    ) -> None:
        self.solver = solver
        self.nu = nu
        self.tol = tol
        self.atol = atol
        self.weak_learner = weak_learner
        self.max_depth = max_depth
        self.max_bins = max_bins
        self.step = step
        self.secondary = secondary
        self.textbook = textbook
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.callback = callback
        self.verbose = verbose

    check_parameters = parameters.check_parameters
    recompute = verification.recompute

    @classmethod
    def model_schema(cls) -> Schema:
        return SCHEMA

    def complete(self) -> None:
        self.record([machine.proof for machine in self._machines])

    def machine_names(self) -> tuple[str, ...]:
        if len(self._machines) == 1:
            return ("",)
        return tuple(f"{label} or not" for label in self.classes_)

    def model_size(self) -> tuple[str, int]:
        return "trees", sum(len(machine.hypotheses) for machine in self._machines)

    def strongest(self) -> Importances | None:
        if self._importances is None:
            return None
        caption = "Share of the weighted gains in edge of the splits on a feature."
        return Importances(self._importances, caption)

    def table_inputs(self, table: Any) -> tuple[Any, Any]:
        return (table.dense() if sp.issparse(table.X) else table.X), table.y

    def onnx_parts(self) -> tuple[list[Any], list[Any]]:
        if self._kind != "tree":
            return super().onnx_parts()
        from cornerstep.boosting.onnx import tree_ensemble

        return [tree_ensemble(self._machines)], []

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SoftMarginBoostingClassifier:
        """Train on examples X with labels y.

        Parameters
        ----------
        X : array of shape (n, d)
            Or a Dask array, whose rows stay on the workers; the weak learner must then be 'tree'
            with a depth of 1 or 2.
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            A weight of 2 is the same as the example given twice.

        Returns
        -------
        self
        """
        self.check_parameters()
        watched(self, X, y, partial(self._timed_fit, X, y, sample_weight))
        self.warn_if_short()
        self._warn_if_single()
        return self

    def _timed_fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        with deferred_interrupt() as pressed:
            self._fit(X, y, sample_weight, Clock.started(self.time_limit, pressed))

    def _fit(self, X: Any, y: Any, sample_weight: Any, clock: Clock) -> None:
        earlier = (self.classes_, self.n_features_in_) if hasattr(self, "_machines") else None
        in_memory = not is_dask(X)
        X, labels, weights = self._check_data(X, y, sample_weight)
        self.nu_ = choice.UNKNOWN if self.nu == "auto" else self.nu
        if self.nu == "auto" and in_memory:
            self.nu_ = self._chosen_nu(X, labels, weights, clock)
        starts: list[Any] = [None] * self._n_machines()
        if self.warm_start and earlier is not None and not self._reweighted:
            same = np.array_equal(earlier[0], self.classes_) and earlier[1] == self.n_features_in_
            if same and self._learner_kind() == self._kind:
                starts = [(machine.hypotheses, machine.weights) for machine in self._machines]
        if isinstance(self.weak_learner, str):
            build = tree_learner(self.max_depth, self.max_bins, n_workers(self.n_jobs))
        else:
            build = classifier_learner(self.weak_learner, check_random_state(self.random_state))
        self.bound_is_exact_ = isinstance(self.weak_learner, str) and self.max_depth <= 2
        self._kind, self._reweighted = self._learner_kind(), False
        self._train([build] * self._n_machines(), X, labels, weights, starts, clock)

    def _chosen_nu(
        self, X: FloatArray, labels: IntArray, weights: FloatArray, clock: Clock
    ) -> float:
        """What 'auto' means for these examples, found in at most half of the time that is left."""
        parts, until = choice.halves(labels, weights, self.random_state), clock.share(2)
        plain = {"textbook": False, "class_weight": None, "callback": None, "verbose": 0}
        runners = [clone(self).set_params(**plain, warm_start=True) for _ in parts]
        losses = dict[float, float]()
        for nu in choice.SHARES if parts else ():
            loss = 0.0
            for runner, own, other in zip(runners, parts, parts[::-1], strict=True):
                runner.set_params(nu=nu, atol=max(float(self.atol), choice.ATOL))
                runner._fit(X[own], labels[own], weights[own], until)
                numbers = np.searchsorted(runner.classes_, labels[other])
                loss += choice.log_loss(class_scores(runner, X[other]), numbers, weights[other])
            if until.left == 0 or clock.pressed():
                break
            losses[nu] = loss
        return min(losses, key=losses.__getitem__, default=choice.UNKNOWN)

    def _warn_if_single(self) -> None:
        """Warn the caller of ``fit`` of ensembles of one tree that errs, unless nu was chosen."""
        single = [
            machine
            for machine in self._machines
            if len(machine.hypotheses) == 1 and machine.margins.min() < 0
        ]
        if single and self.nu != "auto" and self.status_ is Status.SOLVED:
            of = f" for {len(single)} of {len(self._machines)} classes" * (len(self._machines) > 1)
            warnings.warn(
                f"{type(self).__name__} is solved, and the best ensemble{of} is a single "
                f"hypothesis: nu={self.nu!r} averages over so many margins that others add "
                "nothing; take a smaller nu, or nu='auto'",
                UserWarning,
                stacklevel=3,
            )

    def reweight(
        self, X: Any, y: Any, estimators: Any, sample_weight: Any = None, *, rated: bool = False
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
        rated : bool, default=False
            Whether they vote by ``2 p - 1`` of their ``predict_proba`` instead of by decisions.

        Returns
        -------
        self
        """
        self.check_parameters()
        with whole_fit(self), deferred_interrupt() as pressed:
            clock = Clock.started(self.time_limit, pressed)
            self._reweight(X, y, estimators, sample_weight, rated, clock)
        self.warn_if_short()
        return self

    def _reweight(
        self, X: Any, y: Any, estimators: Any, sample_weight: Any, rated: bool, clock: Clock
    ) -> None:
        X, labels, weights = self._check_data(X, y, sample_weight)
        members = list(np.ravel(np.asarray(getattr(estimators, "estimators_", estimators), object)))
        seen = getattr(estimators, "estimators_features_", [None] * len(members))
        if not members or not all(hasattr(member, "classes_") for member in members):
            raise ValueError(
                "estimators must be fitted classifiers, or an ensemble of them with estimators_, "
                f"got {estimators!r}"
            )
        targets = range(1, 2) if self.classes_.size == 2 else range(self.classes_.size)
        known = self._names(members)
        builds = [
            finite_learner(
                [
                    Vote(member, rated, known[k], known, features)
                    for member, features in zip(members, seen, strict=True)
                ]
            )
            for k in targets
        ]
        self.nu_ = choice.UNKNOWN if self.nu == "auto" else self.nu
        self.bound_is_exact_, self._reweighted, self._kind = True, True, "given"
        self._train(builds, X, labels, weights, [None] * len(builds), clock)

    def _names(self, members: list[Any]) -> Any:
        """What the members call the classes: by their names, or by their numbers."""
        said = np.unique(np.concatenate([np.ravel(member.classes_) for member in members]))
        for names in (self.classes_, np.arange(self.classes_.size)):
            if np.isin(said, names).all():
                return names
        strange = said[~np.isin(said, self.classes_)][0]
        raise ValueError(
            f"estimators must predict the classes of y, or their numbers from 0 to "
            f"{self.classes_.size - 1}, got classifiers that know the class {strange}"
        )

    def _check_data(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[FloatArray, IntArray, FloatArray]:
        if is_dask(X):
            from cornerstep.boosting.learners.dask_trees import columns_of

            if not isinstance(self.weak_learner, str) or self.max_depth > 2:
                raise ValueError(
                    "weak_learner must be 'tree' with max_depth 1 or 2 for Dask arrays, got "
                    f"{self.weak_learner!r} with max_depth={self.max_depth!r}"
                )
            X, y, sample_weight = columns_of(X, y, sample_weight)
            self.n_features_in_ = X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
        else:
            X, y = validate_data(self, X, y, dtype=np.float64, order="C", ensure_min_samples=2)
        self.classes_, labels = classes_and_labels(y)
        weights = example_weights(y, labels, self.classes_, sample_weight, self.class_weight)
        if np.unique(labels[weights > 0]).size < 2:
            raise ValueError(
                "sample_weight times class_weight must be positive in at least two classes"
            )
        return X, labels, weights

    def _n_machines(self) -> int:
        return 1 if self.classes_.size == 2 else self.classes_.size

    def _learner_kind(self) -> str:
        return "tree" if isinstance(self.weak_learner, str) else "classifier"

    def _train(
        self,
        builds: list[Any],
        X: FloatArray,
        labels: IntArray,
        weights: FloatArray,
        starts: Any,
        clock: Clock,
    ) -> None:
        """Train the machines and read off the attributes."""
        title = f"{type(self).__name__}, {self.solver}"
        if not self.bound_is_exact_:
            title += " (the bound rests on the weak learner)"
        rounds = 0 if self.max_iter is None else self.max_iter
        settings = Settings(
            solver=self.solver,
            stopping=Stopping(float(self.atol), float(self.tol), rounds),
            callback=iteration_callback(self),
            verbose=self.verbose,
            title=title,
            clock=clock,
            step=self.step,
            secondary=self.secondary,
            bounded_rounds=self.max_iter is None,
            method_settings=TEXTBOOK if self.textbook else MethodSettings(),
        )
        nu = share_of_weight(self.nu_, weights)
        problems = []
        for k, build in enumerate(builds):
            positive = labels == (1 if len(builds) == 1 else k)
            problems.append(Problem(X, np.where(positive, 1.0, -1.0), weights, nu, build))
        machines = [each.machine for each in _one_by_one(problems, settings, starts)]
        self._machines = machines
        single = len(machines) == 1
        self.estimators_ = [m.hypotheses for m in machines]
        self.estimator_weights_: Any = [m.weights for m in machines]
        if single:
            self.estimators_, self.estimator_weights_ = machines[0].hypotheses, machines[0].weights
        self.complete()
        self.margins_ = (
            machines[0].margins if single else np.column_stack([m.margins for m in machines])
        )
        self.example_weights_ = (
            machines[0].distribution
            if single
            else np.column_stack([m.distribution for m in machines])
        )
        self._importances = mean_importances(machines, X, labels, weights)


def _one_by_one(problems: list[Problem], settings: Settings, starts: list[Any]) -> list[Training]:
    """Train the machines within one time limit, of which each gets its share.

    Those that end before their first hypothesis, and after Ctrl-C all to come, give one answer for
    all.
    """
    clock, trained, interrupted = settings.clock, list[Training](), False
    for k, (problem, start) in enumerate(zip(problems, starts, strict=True)):
        own = replace(settings, clock=clock.share(len(problems) - k), start=start)
        if not interrupted:
            try:
                trained.append(train(problem, own))
                interrupted = trained[-1].proof.status is Status.INTERRUPTED
                continue
            except SearchExpiredError:
                interrupted = clock.pressed()
            except KeyboardInterrupt:  # pressed twice, or with a handler of the user's own
                interrupted = True
        status = Status.INTERRUPTED if interrupted else Status.TIME_LIMIT
        trained.append(constant(problem, own, status))
    return trained
