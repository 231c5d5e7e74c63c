"""``ReducedHullSVC``: the certified kernel SVM with bias as a scikit-learn classifier."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import check_is_fitted

from cornerstep.core.threads import allowed_threads, n_workers
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.data.arrays import device_errors, numpy_of
from cornerstep.kernel_svm import parameters, verification
from cornerstep.kernel_svm.base import KernelMachine
from cornerstep.kernel_svm.model_file import SCHEMA
from cornerstep.kernel_svm.pairs import (
    Pairs,
    pair_coefficients,
    pairs_of,
    sizes_given,
)
from cornerstep.kernel_svm.training import TrainedPair, train_pairs
from cornerstep.learning.callbacks import iteration_callback, watched
from cornerstep.learning.display import MarginsDisplay
from cornerstep.learning.kernel_blocks import centred
from cornerstep.learning.kernel_device import device_of
from cornerstep.learning.kernel_onnx import KernelGraph
from cornerstep.learning.specs import Schema
from cornerstep.learning.targets import classes_and_labels, example_weights
from cornerstep.optimiser.loop import Callback

_TOTAL = 1 + 1e-12  # K may exceed the weight of a class by rounding


class ReducedHullSVC(MarginsDisplay, ClassifierMixin, KernelMachine):
    r"""A kernel SVM of two classes (several: one against one), by nu, K or C, with a certificate.

    .. math:: \min \tfrac12 \|A u - B v\|^2, \quad u, v \in P_K = \{0 \le u \le 1, \sum_i u_i = K\}

    The machine separates the nearest points of the two classes' reduced convex hulls, in which an
    example weighs at most 1/K.  It is the nu-SVM with ``nu = 2K/n`` and the C-SVM at ``C = C_``.
    After ``fit`` the minimum is known to lie between ``objective_ - gap_`` and ``objective_``.

    Parameters
    ----------
    nu : float, optional
        In (0, 1]: bounds the share of margin errors from above, that of support vectors from below;
        ``K = nu n / 2``.  At most one of nu, K and C is given; none means C = 1.
    K : float, optional
        Any positive number up to the size of the smallest class.
    C : float, optional
        Solve the C-SVM instead: ``min 1/2 a'Qa - (1/C) 1'a`` over ``0 <= a <= 1, y'a = 0``.
    kernel : str or callable, default='rbf'
        'linear', 'poly', 'rbf', 'sigmoid', 'precomputed', or a function of two arrays of rows.
        Those that need not be positive semidefinite are tried on up to 1,000 training examples
        ('sigmoid' on all, for what its diagonal lacks): the certificate holds if they are.
    gamma : {'scale', 'auto'} or float, default='scale'
    degree : int, default=3
    coef0 : float, default=0
        Of the kernel, as in :class:`sklearn.svm.NuSVC`.
    solver : str, default='auto'
        'auto' (working sets), or a decomposition-invariant method of the optimiser: 'di-away'
        (AFW-2), 'di-pairwise' (PFW-2), 'di-away-schedule' (AFW-1), 'di-pairwise-schedule' (PFW-1).
        The schedules need an integer K (or C), equal weights and a positive definite kernel.  All
        return the iterate of least objective: the last one, but for the schedules and rounding.
    cardinality : int, optional
        For the schedules: s, the number of vertices that an optimum is made of, which their steps
        rest on; by default the number of examples, for which the theory always holds.
    tol, atol : float, default=1e-3 and 0
        Stop when ``gap_ <= max(atol, tol * |objective_|)``, or when half of the gap is
        rounding (the status is then 'precision limit').
    max_iter : int, default=-1
        Rounds of 'auto', iterations of the others; -1 for no limit.
    time_limit : float, optional
        Seconds.
    cache_size : float, default=1000
        Megabytes that kept kernel columns of a pair of classes may take, or those of all pairs of
        up to 1,000 examples together.
    class_weight : dict or 'balanced', optional
        Multiplies the weights of the examples.
    decision_function_shape : {'ovr', 'ovo'}, default='ovr'
    break_ties : bool, default=False
        As in :class:`sklearn.svm.SVC`: of several classes, whether ``decision_function`` has a
        column for each class or for each pair, and whether a tie of votes is broken by its values.
    warm_start : bool, default=False
        Start from the solution of the last fit, if examples and labels are as many and the same.
    n_jobs : int, optional
        Pairs of classes trained at a time, each in a thread, with a cache of its own (and a kernel
        that is a function is called from there), and threads of large matrix products; None means
        one pair, and products on as many as BLAS is set to, -1 all cores.  With a callback, or
        verbose, it is one pair.  Kernel blocks and compiled sweeps run at the same time, the rest
        in turn: it pays for large pairs with many features.
    random_state : int, RandomState or None
        For the smaller problem that 'auto' solves first.
    callback : function, optional
        Called with an :class:`~cornerstep.optimiser.Iterate` after every iteration; training stops
        when it returns True.
    verbose : {0, 1, 2}, default=0

    Attributes
    ----------
    classes_ : array of shape (m,)
    support_, support_vectors_, n_support_, dual_coef_, intercept_
        As in :class:`sklearn.svm.NuSVC`.  ``support_`` and ``support_vectors_`` are in the order of
        the classes.
    C_, nu_, K_ : float
        The three ways to say which problem was solved.
    margin_ : float
        ``2 / |w|``, the distance of the two margins in feature space.
    machines_ : list of MachineProof
        What is proven of each pair of classes, in the order (0, 1), (0, 2), ..., (1, 2), ...:
        objective, bound, gap, status, iterations, trace.
    objective_, bound_, gap_ : float
        The certificate of the pair with the largest gap, recomputed at the end from the data in
        float64.
    relative_gap_ : float
        The largest gap divided by the objective.
    status_ : Status
        Why training stopped; *solved* only if all pairs are.
    n_iter_ : int
        The largest of all pairs.
    trace_ : Trace
        Of the pair with the largest gap; with the number of kernel evaluations so far as a column.
    n_kernel_evaluations_ : int
        Entries of the kernel matrix computed in training, all pairs and the check together.
    kernel_shift_ : float
        What was added to the diagonal of the kernel matrix of the training examples: 0, or, where
        the kernel 'sigmoid' is not positive semidefinite, what it lacks.
    n_features_in_, feature_names_in_

    Notes
    -----
    More than two classes are trained one against one, and ``C_``, ``nu_``, ``K_`` and ``margin_``
    are then arrays with an entry for each pair, in the order of ``machines_``.  Ctrl-C ends
    training: the pairs that are left stay at their starting points, with the gaps and the status to
    show for it.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from cornerstep import ReducedHullSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = ReducedHullSVC(nu=0.2).fit(X, y)
    >>> clf.status_.value, clf.gap_ <= 1e-3 * clf.objective_, clf.score(X, y) > 0.9
    ('solved', True, True)
    """

    def __init__(
        self,
        nu: float | None = None,
        *,
        K: float | None = None,
        C: float | None = None,
        kernel: Any = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        solver: str = "auto",
        cardinality: int | None = None,
        tol: float = 1e-3,
        atol: float = 0.0,
        max_iter: int = -1,
        time_limit: float | None = None,
        cache_size: float = 1000,
        class_weight: Any = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        callback: Callback | None = None,
        verbose: int = 0,
    ) -> None:
        self.nu = nu
        self.K = K
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.solver = solver
        self.cardinality = cardinality
        self.tol = tol
        self.atol = atol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    check_parameters = parameters.check_parameters
    recompute = verification.recompute

    @classmethod
    def model_schema(cls) -> Schema:
        return SCHEMA

    def machine_names(self) -> tuple[str, ...]:
        names = [str(label) for label in self.classes_]
        pairs = tuple(f"{a} or {b}" for a, b in combinations(names, 2))
        return pairs if len(pairs) > 1 else ("",)

    def _sums(self) -> tuple[FloatArray, FloatArray]:
        return pair_coefficients(self.dual_coef_, self.n_support_), self.intercept_

    def _onnx_answer(self, graph: KernelGraph) -> tuple[list[Any], list[Any]]:
        """Votes of the pairs, with ties decided as by ``decision_function`` and ``predict``."""
        from onnx import TensorProto

        m = self.classes_.size
        if m == 2:
            return graph.answer("sums")
        first, second = np.zeros((2, len(pairs_of(m)), m))
        for k, (i, j) in enumerate(pairs_of(m)):
            first[k, i] = second[k, j] = 1.0
        zero, both = graph.given(0.0), graph.given(second.sum(axis=0))

        def votes(won: str) -> str:
            wins = graph.add("Cast", won, to=TensorProto.DOUBLE)
            return graph.add("Add", graph.add("MatMul", wins, graph.given(first - second)), both)

        decided = votes(graph.add("Greater", "sums", zero))
        conf = graph.add("MatMul", "sums", graph.given(first - second))
        size = graph.add("Add", graph.add("Abs", conf), graph.given(1.0))
        below = graph.add("Mul", size, graph.given(3.0))
        held = votes(graph.add("GreaterOrEqual", "sums", zero))
        scores = graph.add("Add", held, graph.add("Div", conf, below))
        graph.add("ArgMax", scores if self.break_ties else decided, out="label", axis=1, keepdims=0)
        return graph.answer("sums" if self.decision_function_shape == "ovo" else scores)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ReducedHullSVC:
        """Train on examples X with labels y.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d), or a kernel matrix (n, n) if precomputed
            Or a torch tensor: on a GPU, kernel values are computed there.
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            Scales the caps: an example of weight 2 counts as two of weight 1.

        Returns
        -------
        self
        """
        trained = watched(self, X, y, partial(self._fit, X, y, sample_weight))
        self.warn_if_short()
        self.warn_if_constant(
            all(pair.is_constant for pair in trained),
            "C is too small for them", "take a larger C, or scale the features",
        )  # fmt: skip
        untrained = sum(not each.is_trained for each in trained)
        if untrained:
            warnings.warn(
                f"ReducedHullSVC was interrupted: {untrained} of {len(self.machines_)} pairs "
                "of classes were not trained and are at their starting points, see machines_",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> list[TrainedPair]:
        self.check_parameters()
        with device_errors(X):
            return self._fit_on(device_of(X), *numpy_of(X, y, sample_weight))

    def _fit_on(self, device: Any, X: Any, y: Any, sample_weight: Any) -> list[TrainedPair]:
        X, y = self._validated(X, y)
        self.classes_, labels = classes_and_labels(y)
        weights = example_weights(X, labels, self.classes_, sample_weight, self.class_weight)
        self._check_feasible(labels, weights)
        entries = self._set_kernel(X)
        trained = self._train(X, labels, weights, device)
        self._read_off(X, labels, trained)
        self.n_kernel_evaluations_ += entries
        return trained

    def _check_feasible(self, labels: IntArray, weights: FloatArray) -> None:
        """Every class must have weight, and enough of it for nu or K."""
        totals = np.bincount(labels, weights=weights)
        if not (totals > 0).all():
            empty = self.classes_.tolist()[totals.argmin()]
            raise ValueError(
                "sample_weight times class_weight must be positive for some example of each "
                f"class, but is 0 for all of class {empty!r}"
            )
        if self.K is not None and totals.min() * _TOTAL < self.K:
            raise ValueError(
                "K must be at most the size (the sum of the weights) of the smallest class, "
                f"{totals.min():g}, got {self.K!r}"
            )
        smallest, largest = totals.min(), totals.max()
        feasible = 2 * smallest / (smallest + largest)
        if self.nu is not None and self.nu > feasible * _TOTAL:
            raise ValueError(
                f"nu={self.nu:g} is infeasible for these classes: the largest feasible nu is "
                f"{feasible:.6g}"
            )

    def _train(
        self, X: Any, labels: IntArray, weights: FloatArray, device: Any
    ) -> list[TrainedPair]:
        """A machine for each pair of classes."""
        from joblib import hash as digest

        signature = digest((labels, weights > 0))
        kept = self._state if self.warm_start else None
        starts = kept[1] if kept is not None and kept[0] == signature else None
        size = sizes_given(self.nu, self.K, None if self.C is None else float(self.C))
        threads, limit = allowed_threads(), int(self.cache_size * 1e6)
        problems = Pairs(
            X, labels, weights, self._kernel_fit, size, limit, threads, self.kernel_shift_, device
        )
        pairs = pairs_of(self.classes_.size)
        settings = replace(self._settings(), cardinality=self.cardinality)
        trained = train_pairs(
            problems, pairs, settings, self._seeds(len(pairs)), starts, self._jobs(len(pairs))
        )
        self._state = (signature, [each.beta for each in trained])
        self.n_kernel_evaluations_ = problems.evaluations
        return trained

    def _jobs(self, pairs: int) -> int:
        """Pairs to train at a time: one where somebody watches."""
        is_watched = iteration_callback(self) is not None or self.verbose
        return 1 if is_watched else min(n_workers(self.n_jobs), pairs)

    def _read_off(self, X: Any, labels: IntArray, trained: list[TrainedPair]) -> None:
        n, m = labels.size, self.classes_.size
        dual, intercepts = np.zeros((m - 1, n)), []
        for (first, second), each in zip(pairs_of(m), trained, strict=True):
            examples, coefficients = each.examples, each.machine.coefficients
            positive = each.positive
            dual[second - (first < second), examples[:positive]] = coefficients[:positive]
            dual[first - (second < first), examples[positive:]] = coefficients[positive:]
            moved = 0.0
            if each.middle is not None:
                used = np.flatnonzero(coefficients)
                rows = centred(X[examples[used]], each.middle)
                moved = float(coefficients[used] @ rows @ each.middle)
            intercepts.append(each.machine.intercept - moved)
        support = np.flatnonzero(dual.any(axis=0))
        support = support[np.argsort(labels[support], kind="stable")]
        self._keep_support(X, support, dual[:, support])
        self.n_support_ = np.bincount(labels[support], minlength=m).astype(np.int32)
        self.intercept_ = np.array(intercepts)
        machines = [each.machine for each in trained]
        self.n_kernel_evaluations_ += sum(each.evaluations for each in trained)
        alone = m == 2
        for name in ("C", "nu", "K", "margin"):
            values = np.array([getattr(machine, name) for machine in machines])
            setattr(self, f"{name}_", float(values[0]) if alone else values)
        self.record([each.proof for each in trained])

    def _scores(self, X: Any) -> FloatArray:
        """One column for each pair of classes."""
        check_is_fitted(self)
        if self.classes_.size == 2 or self._kernel_fit[0] == "linear":
            return self._products(X, self._sums()[0]) + self.intercept_
        ends = np.cumsum([0, *self.n_support_])
        own = [slice(*part) for part in pairwise(ends)]
        first, second = np.array(pairs_of(self.classes_.size)).T

        def sums(values: FloatArray) -> FloatArray:
            """Of each class the sums for its pairs, from kernel values of a block of rows."""
            each = np.stack([values[:, part] @ self.dual_coef_[:, part].T for part in own])
            return each[first, :, second - 1].T + each[second, :, first].T

        return self._by_blocks(X, sums, len(first)) + self.intercept_

    def decision_function(self, X: Any) -> FloatArray:
        """Scores of the second class for two classes, else of each class (votes, ties by scores).

        With ``decision_function_shape='ovo'`` those of each pair, positive for the first of it.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d), or kernel values (n, n_train) if precomputed

        Returns
        -------
        array of shape (n,) for two classes, else (n, m), or (n, m (m - 1) / 2) of pairs
        """
        scores = self._scores(X)
        if self.classes_.size == 2:
            return scores.ravel()
        if self.decision_function_shape == "ovo":
            return scores
        return _ovr_decision_function(scores < 0, -scores, self.classes_.size)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class that wins most pairs; of several that do the first, or see ``break_ties``.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d), or kernel values (n, n_train) if precomputed

        Returns
        -------
        array of shape (n,)
        """
        if self.break_ties and self.classes_.size > 2:
            return self.classes_[self.decision_function(X).argmax(axis=1)]
        scores = self._scores(X)
        if self.classes_.size == 2:
            return self.classes_[(scores.ravel() > 0).astype(np.intp)]
        votes = np.zeros((scores.shape[0], self.classes_.size))
        for k, (i, j) in enumerate(pairs_of(self.classes_.size)):
            votes[:, i] += scores[:, k] > 0
            votes[:, j] += scores[:, k] <= 0
        return self.classes_[votes.argmax(axis=1)]
