"""``OneClassHull``: the certified one-class SVM as a scikit-learn outlier detector.

References
----------
.. [1] B. Schölkopf, J. C. Platt, J. Shawe-Taylor, A. J. Smola, R. C. Williamson. Estimating the
   support of a high-dimensional distribution. Neural Computation 13, 1443-1471, 2001.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import OutlierMixin

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.data.arrays import device_errors, numpy_of
from cornerstep.kernel_svm import parameters, single_verification
from cornerstep.kernel_svm.base import SingleMachine
from cornerstep.kernel_svm.machines import pose_one_class
from cornerstep.kernel_svm.model_file import ONE_CLASS
from cornerstep.kernel_svm.training import require_apart
from cornerstep.learning.callbacks import watched
from cornerstep.learning.kernel_device import device_of
from cornerstep.learning.kernel_onnx import KernelGraph
from cornerstep.learning.specs import Schema
from cornerstep.optimiser.loop import Callback


class OneClassHull(OutlierMixin, SingleMachine):
    r"""A one-class SVM: the point of one reduced convex hull nearest to the origin, certified.

    .. math:: \min \tfrac12 |\sum_i a_i \phi(x_i)|^2, \quad 0 \le a \le 1, \sum_i a_i = \nu n

    The machine separates most examples from the origin of feature space: ``decision_function`` is
    negative for outliers, a share of at most nu of the examples.  It is the problem of
    :class:`sklearn.svm.OneClassSVM`, in the scale of its ``dual_coef_``.  After ``fit`` the minimum
    is known to lie between ``objective_ - gap_`` and ``objective_``.

    Parameters
    ----------
    nu : float, default=0.5
        In (0, 1]: bounds the share of outliers from above, that of support vectors from below.
    kernel : str or callable, default='rbf'
        'linear', 'poly', 'rbf', 'sigmoid', 'precomputed', or a function of two arrays of rows, as
        in :class:`~cornerstep.ReducedHullSVC`.
    gamma : {'scale', 'auto'} or float, default='scale'
    degree : int, default=3
    coef0 : float, default=0
        Of the kernel, as in :class:`sklearn.svm.OneClassSVM`.
    tol, atol : float, default=1e-3 and 0
        Stop when ``gap_ <= max(atol, tol * |objective_|)``, or when half of the gap is
        rounding (the status is then 'precision limit').
    max_iter : int, default=-1
        Rounds; -1 for no limit.
    time_limit : float, optional
        Seconds.
    cache_size : float, default=1000
        Megabytes that kept kernel columns may take.
    warm_start : bool, default=False
        Start the next ``fit`` on the same rows from the coefficients of this one.
    n_jobs : int, optional
        Threads of large matrix products; None means as many as BLAS is set to, -1 all cores.
    random_state : int, RandomState or None
        For the smaller problem that is solved first.
    callback : function, optional
        Called with an :class:`~cornerstep.optimiser.Iterate` after every round; training stops
        when it returns True.
    verbose : {0, 1, 2}, default=0

    Attributes
    ----------
    support_, support_vectors_, dual_coef_, offset_
        As in :class:`sklearn.svm.OneClassSVM`.
    machines_ : list of MachineProof
        One: objective, bound, gap, status, iterations, trace.
    objective_, bound_, gap_, relative_gap_ : float
        The certificate, recomputed at the end from the data in float64.
    status_ : Status
        Why training stopped.
    n_iter_ : int
    trace_ : Trace
        With the number of kernel evaluations so far as a column.
    n_kernel_evaluations_ : int
        Entries of the kernel matrix computed.
    kernel_shift_ : float
        What was added to the diagonal of the kernel matrix: what the kernel 'sigmoid' lacks.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from cornerstep import OneClassHull
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> model = OneClassHull(nu=0.1).fit(X)
    >>> model.status_.value, bool(model.gap_ <= 1e-3 * model.objective_)
    ('solved', True)
    >>> model.predict([[0.0, 0.0], [5.0, 5.0]]).tolist()
    [1, -1]
    """

    _sums_to_zero = False

    def __init__(
        self,
        nu: float = 0.5,
        *,
        kernel: Any = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-3,
        atol: float = 0.0,
        max_iter: int = -1,
        time_limit: float | None = None,
        cache_size: float = 1000,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        callback: Callback | None = None,
        verbose: int = 0,
    ) -> None:
        self.nu = nu
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.atol = atol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.cache_size = cache_size
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    check_parameters = parameters.check_one_class
    recompute = single_verification.recompute_one_class

    @classmethod
    def model_schema(cls) -> Schema:
        return ONE_CLASS

    def known_labels(self) -> IntArray:
        return np.array([-1, 1])

    def _sums(self) -> tuple[FloatArray, FloatArray]:
        return self.dual_coef_, np.array([-self.offset_])

    def _onnx_answer(self, graph: KernelGraph) -> tuple[list[Any], list[Any]]:
        """On the boundary is inside, as in :meth:`predict`."""
        from onnx import TensorProto

        inside = graph.add("GreaterOrEqual", "sums", graph.given(0.0))
        place = graph.add("Cast", inside, to=TensorProto.INT64)
        graph.add("Squeeze", place, graph.given(np.array([1])), out="label")
        return graph.answer("sums")

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> OneClassHull:
        """Train on examples X.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d), or a kernel matrix (n, n) if precomputed
            Or a torch tensor: on a GPU, kernel values are computed there.
        y : ignored
        sample_weight : array of shape (n,), optional
            Scales the caps: an example of weight 2 counts as two of weight 1.

        Returns
        -------
        self
        """
        watched(self, X, y, partial(self._fit, X, sample_weight))
        self.warn_if_short()
        return self

    def _fit(self, X: Any, sample_weight: Any) -> None:
        self.check_parameters()
        with device_errors(X):
            self._fit_on(device_of(X), *numpy_of(X, sample_weight))

    def _fit_on(self, device: Any, X: Any, sample_weight: Any) -> None:
        rows = self._rows(self._validated(X), sample_weight, device)
        problem = pose_one_class(rows, float(self.nu))
        training = self._trained(problem, rows)
        require_apart(problem, training)
        self._read_off(rows, training.beta, training)
        self.offset_ = problem.thresholds(training.gradient)[0]

    def score_samples(self, X: Any) -> FloatArray:
        """``sum_i a_i k(x_i, x)``: how much a row is like the training examples.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d), or kernel values (n, n_train) if precomputed

        Returns
        -------
        array of shape (n,)
        """
        return self._sum(X)

    def decision_function(self, X: Any) -> FloatArray:
        """``score_samples`` minus ``offset_``: negative for outliers.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d), or kernel values (n, n_train) if precomputed

        Returns
        -------
        array of shape (n,)
        """
        scores = self.score_samples(X)
        return scores - self.offset_

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """-1 for outliers, 1 for the others.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d), or kernel values (n, n_train) if precomputed

        Returns
        -------
        array of shape (n,)
        """
        return np.where(self.decision_function(X) >= 0, 1, -1)
