"""``MulticlassSVC``: the certified multi-class SVM as a scikit-learn classifier."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from cornerstep.data.arrays import (
    as_kind_of,
    device_errors,
    is_other_library,
    numpy_of,
    on_host,
    refuse_gradients,
    require_whole,
    tensor_of,
    to_numpy,
)
from cornerstep.data.rows import HeldRows, Rows, as_rows, is_dask
from cornerstep.learning.callbacks import Watchable, iteration_callback, watched
from cornerstep.learning.certificates import Certificate
from cornerstep.learning.display import MarginsDisplay
from cornerstep.learning.estimator import CertifiedEstimator, SupportExamples, Weights
from cornerstep.learning.kernel_functions import Kernel, gamma_value
from cornerstep.learning.kernel_onnx import IN_GRAPHS, KernelGraph
from cornerstep.learning.specs import Schema
from cornerstep.learning.targets import classes_and_labels, example_weights
from cornerstep.multiclass import parameters, verification
from cornerstep.multiclass.calibration import temperature
from cornerstep.multiclass.entropic import is_softmax
from cornerstep.multiclass.examples import Examples, JointExamples, KernelExamples, with_constant
from cornerstep.multiclass.low_rank import LandmarkExamples, proven
from cornerstep.multiclass.model_file import SCHEMA
from cornerstep.multiclass.parameters import (
    Posed,
    constant_of,
    given_loss,
    has_curvature,
    has_free_intercept,
    is_own,
    own_smoothing,
    smoothing_of,
)
from cornerstep.multiclass.prediction import MulticlassScores, joint_features
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.simplex_loss import SimplexLoss
from cornerstep.multiclass.training import Settings, Training, train
from cornerstep.optimiser.loop import Callback, Stopping

_TRIED = 1000  # training examples that tell whether a model is constant


class MulticlassSVC(
    MulticlassScores, MarginsDisplay, Watchable, ClassifierMixin, CertifiedEstimator
):
    r"""A linear or kernel SVM of all classes at once, for one guess or several, with a certificate.

    .. math:: \min_W \tfrac12 \|W\|^2 + C \sum_i c_i\, \Phi(W^\top x_i; y_i)

    :math:`\Phi` is a loss of :mod:`cornerstep.losses`, c_i the weight of an example.  After ``fit``
    the optimum of the objective is known to lie between ``bound_`` and ``objective_``.

    Parameters
    ----------
    loss : str or SimplexLoss, default='max-hinge'
        'max-hinge' (Crammer-Singer), 'cost-sensitive', 'top-k', 'usunier', 'weighted-top-k',
        'weighted-usunier', 'softmax' (multinomial logistic regression, with ``predict_proba``),
        'top-k-entropy' (its form for k guesses), 'squared-hinge' (one class against the rest, as
        :class:`sklearn.svm.LinearSVC`), an object of :mod:`cornerstep.losses`, or one of
        your own, given by its oracle: see :class:`cornerstep.losses.SimplexLoss`.
    k : int, default=5
        For 'top-k', 'usunier' and 'top-k-entropy'; less than the number of classes.
    rho : array of shape (K,), optional
        For the weighted losses: decreasing weights of the sorted margins, used as given.
    costs : array of shape (m, m) or (n, m), optional
        For 'cost-sensitive': a row per class (in the order of ``classes_``) or per example.
    C : float, default=1
        Weight of the losses.
    smoothing : float or 'auto', default='auto'
        mu > 0 replaces Phi by its Moreau envelope Phi_mu.  'auto' is 0.5 for 'max-hinge' with three
        classes or more, whose optimum without is W = 0 where no class is ever as likely as all
        others together; else 0.  0 gives the published losses.  With 'softmax' and 'top-k-entropy'
        mu is a temperature, 'auto' is 1, and smoothing is by entropy.  A squared hinge is divided
        by ``2 mu``, 'auto' being 0.5.
    kernel : str or callable, default='linear'
        'linear', 'rbf', 'poly', 'sigmoid', 'precomputed' or a function: one joint machine for all
        classes.  Those that need not be positive semidefinite are checked on the training examples.
    gamma, degree, coef0
        Of the kernel, as in :class:`sklearn.svm.SVC`.
    cache_size : float, default=1000
        Megabytes that kept rows of the kernel matrix may take, with the kernels 'rbf' and 'poly'
        (of a degree and a coef0 that make it positive semidefinite).  Of others the whole matrix
        is needed.
    kernel_rank : int, optional
        Train a machine of so many *landmarks*, examples that are chosen here, instead of one of all
        examples: for 'rbf' and 'poly'.  ``bound_`` is then that of all machines of these landmarks,
        ``whole_bound_`` that of all machines of the kernel.
    feature_map : callable, optional
        Joint features: ``feature_map(X)`` has the ``psi(x_i, j)`` of n examples and all m classes,
        in the order of ``classes_``, as an array of shape (n, m, D) or as a sparse matrix of shape
        (n m, D), by example, then class.  Scores are ``w'psi(x, j)``, and ``1/2 |w|²`` takes the
        place of ``1/2 |W|²``.  Needs a linear kernel, and arrays in memory.  No intercept is added,
        whatever ``fit_intercept``: the map may have a constant feature for each class.
    solver : str, default='auto'
        'block' (what 'auto' means, but for tensors on a GPU and their like), 'newton' (what it
        means for 'softmax' on arrays and CSR in memory, for 'squared-hinge', and for intercepts
        that are not penalised; it takes 'max-hinge' and 'cost-sensitive' with smoothing, too),
        'envelope' (what it means for tensors) and 'fw-corrective', which need few passes over all
        examples, or the plain methods 'fw', 'fw-open-loop' and 'projected-gradient'.  'envelope'
        needs a linear kernel.  All but 'block' and 'newton' take a loss of your own or a feature
        map, for which 'auto' is 'envelope', or 'fw-corrective' if the loss has no projection or
        there is a kernel.
    last_iterate : bool, default=False
        Return the last iterate of a plain method, as it is published; else the one of them with
        the smallest objective.
    tol, atol : float, default=1e-3 and 0
        Stop when ``gap_ <= max(atol, tol * |objective_|)``.
    max_iter : int, default=1000
        Rounds of 'block', iterations of the others.
    time_limit : float, optional
        Seconds.
    fit_intercept : bool, default=True
        Add a constant feature ``intercept_scaling`` to every example.  Its weights are regularised
        like all others; a larger scaling regularises them less.  With a kernel the constant
        ``intercept_scaling²`` is added to it.
    intercept_scaling : float, default=1
        ``float('inf')``: the intercept is not penalised at all, as in scikit-learn's
        ``LogisticRegression``.  For 'softmax', or 'max-hinge' and 'cost-sensitive' with smoothing,
        by the solver 'newton', which is then what 'auto' means; data in memory.
    probability : bool, default=False
        Also for losses that have none of their own: ``predict_proba`` gives ``softmax(s / T)``,
        T fitted to scores of examples that five more machines have not seen.  They are calibrated,
        not certified.  Examples in memory (a memory-mapped array is read as a whole), no feature
        map.
    class_weight : dict or 'balanced', optional
    warm_start : bool, default=False
        Start from the dual points of the last fit if labels and loss are the same.  Methods that
        do not keep them start from their weights, if all but C is the same; 'newton' from the best
        combination of the last three fits.  Only with it is the state kept after a fit.
    checkpoint : str or path, optional
        A file to which the state of training is written every minute, and at the end.  If it is
        there when ``fit`` starts, training goes on from it; it must have been written for the same
        examples in the same order, labels, weights, loss, C and solver (a digest tells).  Not with
        a loss of your own, of which a file cannot tell.
    n_jobs : int, optional
        Threads of large matrix products; None takes as many as BLAS is set to, -1 all cores.
    random_state : int, RandomState or None
        For the order of the sweeps of 'block'.
    callback : function, optional
        Called with an :class:`~cornerstep.optimiser.Iterate` after every iteration; training stops
        when it returns True.
    verbose : {0, 1, 2}, default=0

    Attributes
    ----------
    classes_ : array of shape (m,)
    coef_ : array of shape (m, d), or (1, d) for two classes
        Weights of the score of each class (their difference for two classes).  Linear kernel only.
        With a ``feature_map`` w, of shape (1, D).
    intercept_ : array of shape (m,) or (1,)
    dual_coef_ : CSR array of shape (n, m), or CSR tensor
        Attains ``bound_``, or more with 'envelope' and smoothing; ``X' dual_coef_`` is
        near W.  After 'newton', 'envelope' and 'fw-corrective' it is made when it is first asked
        for, of the data, which the model refers to until then; so it is when the model is saved,
        copied or pickled.  None where the points are neither kept nor can be found again: after the
        plain methods without smoothing, after 'envelope' and 'fw-corrective' from a checkpoint, and
        where rows are spread over a cluster or streamed, if a plain method's last step was not its
        best, if they would take more than 2 GiB, or if a worker died after the last round.
    support_ : array of int
        The training examples that the machine is made of.  Other kernels than 'linear' only.
    whole_bound_ : float
        With ``kernel_rank``: no machine of the kernel, of whatever examples, has an objective below
        it.  0 where another would take more than 2^29 kernel entries.
    kernel_shift_ : float
        What was added to the diagonal of the kernel matrix of the training examples: not 0 where
        the kernel 'sigmoid' is not positive semidefinite.  Other kernels than 'linear' only.
    smoothing_ : float
        mu, as 'auto' chose it or as given.
    temperature_ : float
        T, with ``probability`` and a loss that has no probabilities of its own.
    machines_ : list of MachineProof
        What is proven, a single one: objective, bound, gap, status, iterations, trace.
    objective_, bound_, gap_ : float
        The certificate, recomputed at the end from the data in float64.
    relative_gap_ : float
        The gap divided by the objective.
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
    ('solved', True, 10.5)
    """

    _state: tuple[Any, ...] | None = None  # of the last fit, for a warm start
    _dual_coef: Any

    def __init__(
        self,
        loss: str | SimplexLoss = "max-hinge",
        *,
        k: int = 5,
        rho: npt.ArrayLike | None = None,
        costs: npt.ArrayLike | None = None,
        C: float = 1.0,
        smoothing: float | str = "auto",
        kernel: Any = "linear",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        cache_size: float = 1000,
        kernel_rank: int | None = None,
        feature_map: Any = None,
        solver: str = "auto",
        last_iterate: bool = False,
        tol: float = 1e-3,
        atol: float = 0.0,
        max_iter: int = 1000,
        time_limit: float | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        probability: bool = False,
        class_weight: Any = None,
        warm_start: bool = False,
        checkpoint: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        callback: Callback | None = None,
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
        self.cache_size = cache_size
        self.kernel_rank = kernel_rank
        self.feature_map = feature_map
        self.solver = solver
        self.last_iterate = last_iterate
        self.tol = tol
        self.atol = atol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.probability = probability
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    check_parameters = parameters.check_parameters
    recompute = verification.recompute

    @classmethod
    def model_schema(cls) -> Schema:
        return SCHEMA

    def certificate(self) -> Certificate:
        proof = super().certificate()
        if not hasattr(self, "whole_bound_"):
            return proof
        return replace(proof, landmarks=int(self.support_.size), whole=self.whole_bound_)

    def model_size(self) -> tuple[str, int]:
        if hasattr(self, "whole_bound_"):
            return "landmarks", int(self.support_.size)
        if hasattr(self, "support_"):
            return "support vectors", int(self.support_.size)
        if self.dual_coef_ is None:
            return super().model_size()
        return "support examples", int(np.count_nonzero(abs(self.dual_coef_).sum(axis=1)))

    def strongest(self) -> Weights | SupportExamples | None:
        if hasattr(self, "coef_") and not hasattr(self, "_feature_map"):
            return Weights(self.coef_, self.classes_)
        if self.dual_coef_ is None:
            return None
        sizes = np.asarray(abs(self.dual_coef_).sum(axis=1)).ravel() / 2
        return SupportExamples(sizes, np.arange(sizes.size))

    @property
    def reads_blocks(self) -> bool:
        linear = self.kernel == "linear" and hasattr(self, "coef_")
        return linear and not hasattr(self, "_feature_map")

    def table_inputs(self, table: Any) -> tuple[Any, Any]:
        if hasattr(self, "feature_names_in_") and not isinstance(table.X, Rows):
            return HeldRows(table.X, table.names or None), table.y  # trained in blocks, with names
        return table.X, table.y

    def onnx_parts(self) -> tuple[list[Any], list[Any]]:
        if not self.reads_blocks:
            if not hasattr(self, "_machine") or self._kernel_fit[0] not in IN_GRAPHS:
                return super().onnx_parts()
            machine = self._machine.toarray()
            own = machine if self.classes_.size > 2 else machine[:, 1:] - machine[:, :1]
            graph = KernelGraph(
                Kernel(*self._kernel_fit), self._support_rows, own,
                self._constant_fit * own.sum(axis=0),
            )  # fmt: skip
            return graph.answer("sums")
        from onnx import helper, numpy_helper

        weights = [
            numpy_helper.from_array(self.coef_.astype(np.float32), "W"),
            numpy_helper.from_array(self.intercept_.astype(np.float32), "b"),
        ]
        return [helper.make_node("Gemm", ["X", "W", "b"], ["scores"], transB=1)], weights

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> MulticlassSVC:
        """Train on examples X with labels y.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d), or a kernel matrix (n, n) if precomputed
            A memory-mapped array, or what :func:`cornerstep.data.rows.open_rows` returned, is read
            in blocks of rows and never copied as a whole.
        y : array of shape (n,)
            May be left out where X has labels of its own: ``open_rows`` with a target.
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        self.check_parameters()
        require_whole(X)
        posed = watched(self, X, y, partial(self._fit, X, y, sample_weight))
        self.warn_if_short()
        self.warn_if_constant(self._is_constant(posed), *self._constancy())
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Posed:
        with device_errors(X):
            posed = self._pose(X, y, sample_weight)
            settings = self._settings()
            trained = train(posed.problem, settings)
            self._state = trained.state if self.warm_start else None
            self.__dict__.pop("temperature_", None)
            if self.probability and not is_softmax(self.loss):
                self.temperature_ = temperature(posed.problem, settings, trained)
            self.classes_ = posed.classes
            self.smoothing_ = smoothing_of(self, self.classes_.shape[0])
            self.__dict__.pop("whole_bound_", None)
            if isinstance(posed.problem.examples, LandmarkExamples):
                trained, self.whole_bound_ = proven(posed.problem, trained, settings.stopping)
            self.record([trained.proof])
            later = partial(_of_all, trained.coefficients, posed.used, on_host(X))
            self._dual_coef = later if callable(trained.coefficients) else later()
            self._read_machine(posed, trained)
            if is_other_library(X) and hasattr(self, "coef_"):
                self.coef_, self.intercept_ = (
                    as_kind_of(part, X) for part in (self.coef_, self.intercept_)
                )
            if is_other_library(y):
                self.classes_ = as_kind_of(self.classes_, y)
        return posed

    def _is_constant(self, posed: Posed) -> bool:
        """Whether the weights are 0, or some training examples of each class get one answer."""
        problem = posed.problem
        if self.kernel != "linear":
            return not abs(self._machine).sum()
        if self.feature_map is not None or not isinstance(problem, MulticlassProblem):
            return not to_numpy(self.coef_).any()
        counts = np.bincount(problem.labels, minlength=problem.n_classes)
        order = np.argsort(problem.labels, kind="stable")
        places = np.arange(order.size) - np.repeat(np.cumsum(counts) - counts, counts)
        some = order[places < max(_TRIED // counts.size, 1)]
        scores = posed.X[np.flatnonzero(posed.used)[some]] @ to_numpy(self.coef_).T
        scores += to_numpy(self.intercept_)
        answers = scores.argmax(axis=1) if counts.size > 2 else scores > 0
        return bool((counts > 0).sum() > 1 and (answers == answers[0]).all())

    def _constancy(self) -> tuple[str, str]:
        """How the best model can be constant, and what to do."""
        if self.classes_.shape[0] == 2 or self.smoothing_:
            return "C is too small for them", "take a larger C, or scale the features"
        return (
            "C is too small for them, or they overlap so much that no class is ever as likely as "
            "all others together, where this loss cannot tell them apart",
            "take smoothing=0.5, loss='top-k', loss='usunier' or a larger C",
        )

    def _settings(self) -> Settings:
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return Settings(
            solver=self.solver,
            stopping=Stopping(float(self.atol), float(self.tol), self.max_iter, self.time_limit),
            rng=np.random.default_rng(seed),
            callback=iteration_callback(self),
            verbose=self.verbose,
            title="MulticlassSVC",
            start=self._state,
            checkpoint=self.checkpoint,
            last_iterate=self.last_iterate,
            keeps_state=self.warm_start or self.probability,
        )

    def _pose(self, X: Any, y: Any, sample_weight: Any) -> Posed:
        """The problem, by the kind of X."""
        rows = None if is_other_library(X) else as_rows(X)
        refuse_gradients(X=X, y=y, sample_weight=sample_weight)
        if on_host(X) and self.solver in ("auto", "block"):
            from cornerstep.multiclass.arrays.posing import dense

            return self._pose_arrays(*numpy_of(dense(X), y, sample_weight))
        if is_other_library(X):
            from cornerstep.multiclass.arrays.posing import pose

            posed = pose(self, X, y, sample_weight)
        elif rows is not None and (self._streams or rows is X):
            from cornerstep.multiclass.distributed.posing import pose_streamed

            posed = pose_streamed(self, rows, y, sample_weight)
        elif is_dask(X):
            from cornerstep.multiclass.distributed.dask_posing import pose as pose_on_cluster

            posed = pose_on_cluster(self, X, y, sample_weight)
        else:
            return self._pose_arrays(X, y, sample_weight)
        self.n_features_in_ = posed.X.shape[1]
        self.__dict__.pop("feature_names_in_", None)
        if posed.feature_names is not None:
            self.feature_names_in_ = np.asarray(posed.feature_names, dtype=object)
        return posed

    @property
    def _streams(self) -> bool:
        """Whether a memory-mapped array is read in blocks, rather than as a whole."""
        return self.kernel == "linear" and (not self.probability or is_softmax(self.loss))

    def _pose_arrays(self, X: Any, y: Any, sample_weight: Any) -> Posed:
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse=self._accepts(self.kernel),
            dtype=[np.float64, np.float32],
            order="C",
        )
        classes, labels = classes_and_labels(y)
        weights = example_weights(X, labels, classes, sample_weight, self.class_weight)
        if not (weights > 0).any():
            raise ValueError("sample_weight times class_weight must be positive for some example")
        used = weights > 0
        if has_free_intercept(self) and np.unique(labels[used]).size < classes.size:
            raise ValueError(
                "sample_weight times class_weight must be positive for some example of each class "
                "with intercept_scaling=inf"
            )
        mu = smoothing_of(self, classes.size)
        if not mu and (has_free_intercept(self) or self.solver == "newton"):
            raise ValueError(
                "smoothing must be positive with solver='newton' or intercept_scaling=inf, got "
                f"{self.smoothing!r} and {classes.size} classes"
            )
        problem = MulticlassProblem(
            self._examples(X, used, classes.size),
            labels[used],
            classes.size,
            given_loss(self, classes.size, labels.size).rows(used),
            self.C * weights[used],
            mu,
            constant_of(self),
            has_free_intercept(self),
        )
        return Posed(problem, used, X, classes)

    def _examples(self, X: Any, used: Any, n_classes: int) -> Examples | KernelExamples:
        rows = X if used.all() else X[used]
        if self.feature_map is not None:
            return JointExamples(joint_features(self.feature_map, rows, n_classes), n_classes)
        if self.kernel == "linear":
            if self.fit_intercept:
                rows = with_constant(rows, constant_of(self))
            smooth = is_own(self.loss) or own_smoothing(self.loss) > 0
            swept = not smooth or has_curvature(self.loss)
            return Examples(rows, sweeps=swept and self.solver in ("auto", "block", "newton"))
        gamma = 1.0
        if self.kernel == "precomputed":
            if X.shape[0] != X.shape[1]:
                raise ValueError(f"X must be a square kernel matrix, got shape {X.shape}")
            rows = X[np.ix_(used, used)]
        elif not callable(self.kernel):
            gamma = gamma_value(self.gamma, X)
        self._kernel_fit = self.kernel, gamma, self.degree, self.coef0
        self._constant_fit = self._constant()
        kernel = Kernel(*self._kernel_fit)
        if self.kernel_rank is not None:
            self.kernel_shift_, values = 0.0, kernel.inner_products(rows).raised(self._constant_fit)
            rng = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
            return LandmarkExamples.chosen(values, self.kernel_rank, np.random.default_rng(rng))
        columns, self.kernel_shift_ = kernel.columns(
            rows, self._constant_fit, int(self.cache_size * 1e6)
        )
        return KernelExamples(columns)

    @property
    def dual_coef_(self) -> Any:
        """Dual coefficients: see the attributes of the class."""
        if "_dual_coef" not in self.__dict__:
            raise AttributeError("dual_coef_ is there after fit")
        if callable(self._dual_coef):
            self._dual_coef = self._dual_coef()
        return self._dual_coef

    @dual_coef_.setter
    def dual_coef_(self, value: Any) -> None:
        self._dual_coef = value

    def __getstate__(self) -> Any:
        if "_dual_coef" in self.__dict__:
            self._dual_coef = self.dual_coef_  # a copy elsewhere would have to take the data along
        return super().__getstate__()

    def _read_machine(self, posed: Posed, trained: Training) -> None:
        """What scores new examples: weights, or support rows and their coefficients."""
        of_others = "coef_", "intercept_", "support_", "_support_rows", "_machine", "_feature_map"
        for name in of_others:
            self.__dict__.pop(name, None)  # of an earlier fit with another kernel
        if self.kernel == "linear":
            for name in ("kernel_shift_", "_kernel_fit", "_constant_fit"):
                self.__dict__.pop(name, None)
        weights = trained.weights
        examples = posed.problem.examples
        if isinstance(examples, LandmarkExamples):
            self.support_ = np.flatnonzero(posed.used)[examples.landmarks]
            self._machine = sp.csr_array(trained.expansion)
            self._support_rows = posed.X[self.support_]
            return
        if weights is None:
            machine = sp.csr_array(trained.expansion)
            support = np.flatnonzero(abs(machine).sum(axis=1))
            self.support_ = np.flatnonzero(posed.used)[support]
            self._machine = machine[support]
            self._support_rows = None if self.kernel == "precomputed" else posed.X[self.support_]
            return
        if self.feature_map is not None:
            self.coef_, self.intercept_ = weights, np.zeros(1)
            self._feature_map = self.feature_map
            return
        if self.classes_.shape[0] == 2:
            weights = weights[1:, :] - weights[:1, :]
        if self.fit_intercept:  # products, so that no view keeps W
            self.coef_ = 1.0 * weights[:, :-1]
            self.intercept_ = weights[:, -1] * constant_of(self)
        else:
            self.coef_, self.intercept_ = weights, abs(0.0 * weights[:, 0])


def _of_all(coefficients: Any, used: Any, as_tensor: bool) -> Any:
    """Dual coefficients, given or to be made, with a row for every example."""
    if callable(coefficients):
        coefficients = coefficients()
    if coefficients is None:
        return None
    if is_other_library(coefficients):
        from cornerstep.multiclass.arrays.posing import with_unused_rows

        return with_unused_rows(coefficients, used)
    coefficients = sp.csr_array(coefficients)
    if not used.all():
        places = np.flatnonzero(used), np.arange(used.sum())
        spread = sp.csr_array((np.ones(used.sum()), places), (used.size, used.sum()))
        coefficients = spread @ coefficients
    return tensor_of(coefficients) if as_tensor else coefficients
