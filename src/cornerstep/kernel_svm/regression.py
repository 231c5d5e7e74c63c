"""``ReducedHullSVR``: the certified support vector regression as a scikit-learn regressor."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from cornerstep.core.types import FloatArray
from cornerstep.data.arrays import device_errors, numpy_of
from cornerstep.kernel_svm import parameters, single_verification
from cornerstep.kernel_svm.base import SingleMachine
from cornerstep.kernel_svm.machines import pose_regression, tube_given
from cornerstep.kernel_svm.model_file import REGRESSION
from cornerstep.learning.callbacks import watched
from cornerstep.learning.kernel_blocks import centred
from cornerstep.learning.kernel_device import device_of
from cornerstep.learning.specs import Schema
from cornerstep.optimiser.loop import Callback


class ReducedHullSVR(RegressorMixin, SingleMachine):
    r"""Support vector regression by epsilon or nu, as two reduced convex hulls, with a certificate.

    .. math:: \min \tfrac12 c^\top K c + \epsilon |c|_1 - y^\top c,
        \quad |c_i| \le C, \sum_i c_i = 0

    The examples are shifted up and down in y by epsilon; the function runs between the reduced
    hulls of the two sets.  With nu the width is found: at most a share nu of the examples lies
    outside the tube.  These are the problems of :class:`sklearn.svm.SVR` and
    :class:`sklearn.svm.NuSVR`, y without its mean.  After ``fit`` the minimum is known to lie
    between ``objective_ - gap_`` and ``objective_``.

    Parameters
    ----------
    C : float, default=1.0
        The most that a coefficient may be, times the weight of its example.
    epsilon : float, optional
        Half the width of the tube, >= 0.  At most one of epsilon and nu is given; none means 0.1.
    nu : float, optional
        In (0, 1]: bounds the share of examples outside the tube from above, that of support vectors
        from below.
    kernel : str or callable, default='rbf'
        'linear', 'poly', 'rbf', 'sigmoid', 'precomputed', or a function of two arrays of rows, as
        in :class:`~cornerstep.ReducedHullSVC`.
    gamma : {'scale', 'auto'} or float, default='scale'
    degree : int, default=3
    coef0 : float, default=0
        Of the kernel, as in :class:`sklearn.svm.SVR`.
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
    support_, support_vectors_, dual_coef_, intercept_
        As in :class:`sklearn.svm.SVR`.
    epsilon_ : float
        Half the width of the tube, given or found.
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
    >>> from cornerstep import ReducedHullSVR
    >>> x = np.linspace(0, 6, 200)[:, None]
    >>> model = ReducedHullSVR(C=10, epsilon=0.05).fit(x, np.sin(x).ravel())
    >>> model.status_.value, bool(abs(model.predict([[1.0]])[0] - np.sin(1.0)) < 0.06)
    ('solved', True)
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        epsilon: float | None = None,
        nu: float | None = None,
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
        self.C = C
        self.epsilon = epsilon
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

    check_parameters = parameters.check_regression
    recompute = single_verification.recompute_regression

    @classmethod
    def model_schema(cls) -> Schema:
        return REGRESSION

    def known_labels(self) -> Any:
        return np.empty(0)

    def _sums(self) -> tuple[FloatArray, FloatArray]:
        return self.dual_coef_, self.intercept_

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ReducedHullSVR:
        """Train on examples X with targets y.

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
        watched(self, X, y, partial(self._fit, X, y, sample_weight))
        self.warn_if_short()
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        self.check_parameters()
        with device_errors(X):
            self._fit_on(device_of(X), *numpy_of(X, y, sample_weight))

    def _fit_on(self, device: Any, X: Any, y: Any, sample_weight: Any) -> None:
        X, y = self._validated(X, y, y_numeric=True)
        rows = self._rows(X, sample_weight, device)
        given = tube_given(self.C, self.epsilon, self.nu)
        problem, middle, level = pose_regression(rows, np.asarray(y, dtype=np.float64), given)
        training = self._trained(problem, rows)
        above, below = np.split(training.beta, 2)
        coefficients = above + below
        used = self._read_off(rows, coefficients, training)
        moved = 0.0
        if middle is not None:
            moved = float(coefficients[used] @ centred(X[self.support_], middle) @ middle)
        thresholds = problem.thresholds(training.gradient)
        self.intercept_ = np.array([level - sum(thresholds) / len(thresholds) - moved])
        found, epsilon = 0.5 * (thresholds[-1] - thresholds[0]), given["epsilon"]
        self.epsilon_ = max(found, 0.0) if epsilon is None else float(epsilon)

    def predict(self, X: Any) -> FloatArray:
        """``sum_i c_i k(x_i, x) + intercept_`` of each row.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d), or kernel values (n, n_train) if precomputed

        Returns
        -------
        array of shape (n,)
        """
        products = self._sum(X)
        return products + self.intercept_[0]
