"""``MulticlassSVC``: the certified multi-class SVM as a scikit-learn classifier."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from cornerstep.display import CertifiedDisplay
from cornerstep.losses import Loss, make_loss
from cornerstep.optimiser.loop import Outcome, Stopping, run
from cornerstep.optimiser.result import Status
from cornerstep.problems.examples import Examples, KernelExamples
from cornerstep.problems.multiclass import MulticlassProblem
from cornerstep.vectors import FloatArray, IntArray

SOLVERS = ("auto", "block", "fw", "fw-open-loop", "projected-gradient")
KERNELS = ("linear", "rbf", "poly", "sigmoid", "precomputed")


class MulticlassSVC(CertifiedDisplay, ClassifierMixin, BaseEstimator):
    """``min over W of  1/2 |W|² + C sum_i weight_i Phi(W'x_i; y_i)``, with a certificate.

    Phi is a max-dot-over-simplex loss (see :mod:`cornerstep.losses`).  After ``fit`` the optimum of
    the objective is known to lie between ``dual_objective_`` and ``objective_``.

    Parameters
    ----------
    loss : str or Loss, default='max-hinge'
        'max-hinge' (Crammer-Singer), 'cost-sensitive', 'top-k', 'usunier', 'weighted-top-k',
        'weighted-usunier', or an object of :mod:`cornerstep.losses`.
    k : int, default=5
        For 'top-k' and 'usunier'; less than the number of classes.
    rho : array of shape (K,), optional
        For the weighted losses: decreasing weights of the sorted margins, used as given.
    costs : array of shape (m, m) or (n, m), optional
        For 'cost-sensitive': a row per class (in the order of ``classes_``) or per example.
    C : float, default=1
        Weight of the losses.
    smoothing : float, default=0
        mu > 0 replaces Phi by its Moreau envelope Phi_mu.
    kernel : str or callable, default='linear'
        'linear', 'rbf', 'poly', 'sigmoid', 'precomputed' or a function: one joint machine for all
        classes.
    gamma, degree, coef0
        Of the kernel, as in :class:`sklearn.svm.SVC`.
    solver : str, default='auto'
        'block' (what 'auto' means), or the plain methods 'fw', 'fw-open-loop' and
        'projected-gradient'.
    tol : float, default=1e-3
        Relative duality gap: stop when ``objective - dual_objective <= tol * objective``.
    max_iter : int, default=1000
        Rounds of 'block', iterations of the others.
    time_limit : float, optional
        Seconds.
    fit_intercept : bool, default=True
        Add a constant feature ``intercept_scaling`` to every example.  Its weights are regularised
        like all others; a larger scaling regularises them less.  With a kernel the constant
        ``intercept_scaling²`` is added to it.
    intercept_scaling : float, default=1
    class_weight : dict or 'balanced', optional
    warm_start : bool, default=False
        Start from the dual points of the last fit if labels and loss are the same.  Methods that
        do not keep them start from their weights, if all but C is the same.
    n_jobs : int, optional
        Threads for the matrix products; None leaves the setting of the environment, -1 takes all
        cores.
    random_state : int, RandomState or None
        For the order of the sweeps of 'block'.
    verbose : {0, 1, 2}, default=0

    Attributes
    ----------
    classes_ : array of shape (m,)
    coef_ : array of shape (m, d), or (1, d) for two classes
        Weights of the score of each class (their difference for two classes).  Linear kernel only.
    intercept_ : array of shape (m,) or (1,)
    dual_coef_ : CSR array of shape (n, m)
        Attains ``dual_objective_``; ``X' dual_coef_`` is near W.  None after a plain method that
        does not keep it.
    objective_, dual_objective_, gap_, relative_gap_ : float
        The certificate, recomputed at the end from the data in float64.
    status_ : Status
        Why training stopped.
    n_iter_ : int
    trace_ : Trace
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from cornerstep import MulticlassSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MulticlassSVC(random_state=0).fit(X, y)
    >>> clf.status_.value, clf.relative_gap_ <= 1e-3, round(clf.objective_, 1)
    ('solved', True, 20.0)
    """

    _state: tuple[Any, ...] | None = None  # of the last fit, for a warm start

    def __init__(
        self,
        loss: str | Loss = "max-hinge",
        *,
        k: int = 5,
        rho: npt.ArrayLike | None = None,
        costs: npt.ArrayLike | None = None,
        C: float = 1.0,
        smoothing: float = 0.0,
        kernel: Any = "linear",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.k = k
        self.rho = rho
        self.costs = costs
        self.C = C
        self.smoothing = smoothing
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MulticlassSVC:
        """Train on examples X with labels y.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d), or a kernel matrix (n, n) if precomputed
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        self._check_parameters()
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse=self._accept_sparse(),
            dtype=[np.float64, np.float32],
            order="C",
        )
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if self.classes_.size < 2:
            raise ValueError(
                "y must have at least two classes: the classifier can't train when only one class "
                f"is present, {self.classes_[0]!r}"
            )
        weights = self._weights(X, labels, sample_weight)
        used = weights > 0
        if not used.any():
            raise ValueError("sample_weight times class_weight must be positive for some example")
        examples = self._examples(X, used)
        problem = MulticlassProblem(
            examples,
            labels[used],
            self.classes_.size,
            self._loss(labels.size, used),
            self.C * weights[used],
            self.smoothing,
        )
        with self._threads():
            solver, outcome = self._run(problem)
        self._read_off(problem, solver, outcome, used)
        return self

    def _accept_sparse(self) -> str | bool:
        return False if self.kernel == "precomputed" else "csr"

    def _check_parameters(self) -> None:
        positive = {"C": self.C, "intercept_scaling": self.intercept_scaling}
        for name, value in positive.items():
            if not (isinstance(value, Real) and 0 < value < np.inf):
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        if not (isinstance(self.smoothing, Real) and 0 <= self.smoothing < np.inf):
            raise ValueError(f"smoothing must be a number >= 0, got {self.smoothing!r}")
        if not (isinstance(self.tol, Real) and self.tol >= 0):
            raise ValueError(f"tol must be a number >= 0, got {self.tol!r}")
        if self.solver not in SOLVERS:
            raise ValueError(f"solver must be one of {', '.join(SOLVERS)}, got {self.solver!r}")
        if not callable(self.kernel) and self.kernel not in KERNELS:
            raise ValueError(
                f"kernel must be one of {', '.join(KERNELS)} or a function, got {self.kernel!r}"
            )

    def _weights(self, X: Any, labels: IntArray, sample_weight: Any) -> FloatArray:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if self.class_weight is not None:
            indices = np.arange(self.classes_.size)
            given = self.class_weight
            if isinstance(given, dict):
                given = {i: given[label] for i, label in enumerate(self.classes_) if label in given}
            of_classes = compute_class_weight(given, classes=indices, y=labels)
            if not (of_classes >= 0).all():
                raise ValueError(f"class_weight must be numbers >= 0, got {self.class_weight!r}")
            weights = weights * of_classes[labels]
        return np.asarray(weights, dtype=np.float64)

    def _loss(self, n_examples: int, used: Any) -> Loss:
        costs = None if self.costs is None else np.asarray(self.costs)
        per_example = costs is not None and costs.shape[:1] != self.classes_.shape
        loss = make_loss(self.loss, k=self.k, rho=self.rho, costs=costs, per_example=per_example)
        loss.check(self.classes_.size, n_examples)
        return loss.rows(used)

    def _examples(self, X: Any, used: Any) -> Examples | KernelExamples:
        everything = bool(used.all())
        if self.kernel == "linear":
            rows = X if everything else X[used]
            if self.fit_intercept:
                constant = np.full((rows.shape[0], 1), self.intercept_scaling, dtype=rows.dtype)
                rows = (
                    sp.hstack([rows, constant], "csr")
                    if sp.issparse(rows)
                    else np.hstack([rows, constant])
                )
            sweeps = self.solver in ("auto", "block")
            return Examples(rows, single=sweeps)
        if self.kernel == "precomputed":
            if X.shape[0] != X.shape[1]:
                raise ValueError(f"X must be a square kernel matrix, got shape {X.shape}")
            matrix = X[np.ix_(used, used)]
        else:
            self._gamma = self._gamma_value(X)
            self._fit_X = X if everything else X[used]
            matrix = self._kernel_matrix(self._fit_X, self._fit_X)
        self._used = used
        return KernelExamples(matrix + self._constant())

    def _constant(self) -> float:
        return self.intercept_scaling**2 if self.fit_intercept else 0.0

    def _gamma_value(self, X: Any) -> float:
        if self.gamma == "scale":
            variance = (
                float(X.multiply(X).mean(dtype=np.float64) - X.mean(dtype=np.float64) ** 2)
                if sp.issparse(X)
                else float(X.var(dtype=np.float64))
            )
            return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
        if self.gamma == "auto":
            return 1.0 / X.shape[1]
        if not (isinstance(self.gamma, Real) and 0 <= self.gamma < np.inf):
            raise ValueError(f"gamma must be 'scale', 'auto' or a number >= 0, got {self.gamma!r}")
        return float(self.gamma)

    def _kernel_matrix(self, X: Any, Y: Any) -> FloatArray:
        if callable(self.kernel):
            return np.asarray(self.kernel(X, Y), dtype=np.float64)
        return pairwise_kernels(
            X, Y, metric=self.kernel, filter_params=True,
            gamma=self._gamma, degree=self.degree, coef0=self.coef0,
        )  # fmt: skip

    def _threads(self) -> AbstractContextManager[Any]:
        if self.n_jobs is None:
            return nullcontext()
        from joblib import effective_n_jobs
        from threadpoolctl import threadpool_limits

        return threadpool_limits(effective_n_jobs(self.n_jobs))

    def _run(self, problem: MulticlassProblem) -> tuple[Any, Outcome]:
        from cornerstep.problems.multiclass_batch import BatchDescent, carried
        from cornerstep.problems.multiclass_block import BlockAscent

        name = "block" if self.solver == "auto" else self.solver
        signature = self._signature(problem, name)
        kept = self._state if self.warm_start else None
        if kept is not None and kept[0] != signature:
            kept = None
        if name == "block":
            rng = check_random_state(self.random_state)
            generator = np.random.default_rng(rng.randint(np.iinfo(np.int32).max))
            pool = None if kept is None else kept[2]
            solver: Any = BlockAscent(problem, generator, self.tol, pool)
        else:
            state = None if kept is None else carried(problem, kept[2], kept[1])
            solver = BatchDescent(problem, name, state)
        stopping = Stopping(0.0, self.tol, self.max_iter, self.time_limit)
        outcome = run(solver, stopping, verbose=self.verbose, title=f"MulticlassSVC, {name}")
        self._state = (signature, problem.scales, solver.pool if name == "block" else solver.dual)
        return solver, outcome

    def _signature(self, problem: MulticlassProblem, name: str) -> tuple[Any, ...]:
        """What two fits must share for the second to start from the dual state of the first."""
        from joblib import hash as digest

        from cornerstep.problems.multiclass_batch import keeps_duals

        loss = problem.loss
        shared = (problem.n_classes, digest(problem.labels), loss.whole, digest(loss.rho))
        if name == "block" or keeps_duals(problem):
            return (*shared, "block" if name == "block" else "dual points")
        return (*shared, digest((problem.examples.data, loss.costs)))

    def _read_off(
        self, problem: MulticlassProblem, solver: Any, outcome: Outcome, used: Any
    ) -> None:
        coefficients = solver.coefficients()
        if coefficients is not None:
            coefficients = sp.csr_array(coefficients)
            if not used.all():
                spread = sp.csr_array(
                    (np.ones(coefficients.shape[0]), (np.flatnonzero(used), np.arange(used.sum()))),
                    shape=(used.size, coefficients.shape[0]),
                )
                coefficients = spread @ coefficients
        self.dual_coef_ = coefficients
        if problem.examples.kernel:
            for name in ("coef_", "intercept_"):  # of an earlier fit with the linear kernel
                self.__dict__.pop(name, None)
            self._machine = sp.csr_array(solver.weights_coefficients())
        weights = problem.examples.weights(solver.weights_image())
        if weights is not None:
            if self.classes_.size == 2:
                weights = weights[1:] - weights[:1]
            self.intercept_ = (
                weights[:, -1] * self.intercept_scaling
                if self.fit_intercept
                else np.zeros(weights.shape[0])
            )
            self.coef_ = np.ascontiguousarray(weights[:, :-1] if self.fit_intercept else weights)
        self.objective_ = outcome.look.value
        # not the best bound seen on the way: sweeps may have read rounded data
        self.dual_objective_ = outcome.look.value - outcome.look.gap
        self.gap_ = outcome.look.gap
        self.relative_gap_ = self.gap_ / self.objective_ if self.objective_ > 0 else 0.0
        self.status_ = outcome.status
        self.n_iter_ = max(outcome.n_iter, 1)
        self.trace_ = outcome.trace
        if self.status_ in (Status.ITERATION_LIMIT, Status.NO_PROGRESS):
            warnings.warn(
                f"MulticlassSVC stopped at a relative gap of {self.relative_gap_:.1e}, above "
                f"tol={self.tol:g}: {self.status_.message}",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _scores(self, X: Any) -> FloatArray:
        """One column per class (one in all for two classes)."""
        check_is_fitted(self)
        X = validate_data(
            self,
            X,
            accept_sparse=self._accept_sparse(),
            dtype=[np.float64, np.float32],
            reset=False,
        )
        if self.kernel == "linear":
            return np.asarray(X @ self.coef_.T) + self.intercept_
        if self.kernel == "precomputed":
            matrix = X[:, np.flatnonzero(self._used)]
        else:
            matrix = self._kernel_matrix(X, self._fit_X)
        scores = np.asarray((self._machine.T @ (matrix + self._constant()).T).T)
        return scores[:, 1:] - scores[:, :1] if self.classes_.size == 2 else scores

    def decision_function(self, X: Any) -> FloatArray:
        """Scores of the classes, one column each; of the second against the first for two classes.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)

        Returns
        -------
        array of shape (n, m), or (n,) for two classes
        """
        scores = self._scores(X)
        return scores.ravel() if self.classes_.size == 2 else scores

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class with the largest score.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)

        Returns
        -------
        array of shape (n,)
        """
        return self.predict_top_k(X, 1)[:, 0]

    def predict_top_k(self, X: Any, k: int = 5) -> npt.NDArray[Any]:
        """The k classes with the largest scores, best first.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
        k : int, default=5
            At most the number of classes.

        Returns
        -------
        array of shape (n, k)
        """
        scores = self._scores(X)
        if not (isinstance(k, Integral) and 1 <= k <= self.classes_.size):
            raise ValueError(f"k must be an integer from 1 to {self.classes_.size}, got {k!r}")
        if self.classes_.size == 2:
            scores = np.hstack([np.zeros_like(scores), scores])
        if k == 1:
            return self.classes_[scores.argmax(axis=1)][:, None]
        return self.classes_[np.argsort(-scores, axis=1, kind="stable")[:, :k]]

    def top_k_score(self, X: Any, y: Any, k: int = 5, sample_weight: Any = None) -> float:
        """The share of examples whose label is among the k classes with the largest scores.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
        y : array of shape (n,)
        k : int, default=5
        sample_weight : array of shape (n,), optional

        Returns
        -------
        float
        """
        hits = (self.predict_top_k(X, k) == np.asarray(y)[:, None]).any(axis=1)
        return float(np.average(hits, weights=sample_weight))
