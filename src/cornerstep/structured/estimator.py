"""``StructuredSVC``: the certified structured SVM, for any structured model."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from cornerstep.core.threads import n_workers
from cornerstep.core.types import FloatArray
from cornerstep.data.rows import is_dask
from cornerstep.learning.callbacks import Watchable, iteration_callback, watched
from cornerstep.learning.estimator import CertifiedEstimator, Weights
from cornerstep.learning.specs import Schema
from cornerstep.optimiser.loop import Callback, Stopping
from cornerstep.structured import parameters, verification
from cornerstep.structured.model_file import SCHEMA
from cornerstep.structured.models.chain import ChainModel
from cornerstep.structured.problem import (
    StructuredProblem,
    example_weights,
    lam_of,
    pose_examples,
    prox_of,
    weighed,
)

_CHUNK = 256  # examples that a worker decodes at a time


class StructuredSVC(Watchable, CertifiedEstimator):
    r"""An SVM whose labels are structures (chains, graphs, matchings, tags), with a certificate.

    .. math:: \min_w \tfrac{\lambda}{2} \|w\|^2 + \tfrac1n \sum_i \max_y (L_i(y) - w^\top \psi_i(y))

    or, with ``loss='softmax'``, ``log sum_y exp(-w'psi_i(y))`` in place of the maximum.

    ``psi_i(y) = phi(x_i, y_i) - phi(x_i, y)``, and ``lambda = 1/(C n)`` where C is given.  After
    ``fit`` the optimum is known to lie between ``bound_`` and ``objective_``.  Where examples have
    weights, the mean over them is the weighted one and n the sum of the weights: an example of
    weight 2 is as good as two, one of weight 0 as none.

    What is returned: of block solvers and 'subgradient' the last point or, with ``averaging``, the
    average of the points after all steps, corrective ones included, with weights that grow like
    their number; of 'fw' and 'extragradient' the iterate of least objective (for 'extragradient',
    of the averages that the method defines), or that which reached the tolerance.  ``bound_`` is
    that of the last dual point of block solvers, the best that other solvers have seen.  After
    Ctrl-C, if a look takes long, all return the best point that an earlier look has proven; so does
    'subgradient' where its own has an objective beyond float64.  With ``loss='softmax'`` it is the
    point of least objective that full looks have seen.

    Parameters
    ----------
    model : StructuredModel
        What labelings look like, what they cost and how to find the best one; see
        :mod:`cornerstep.structured`.  It is copied, not changed.
    loss : {'max-hinge', 'softmax'}, default='max-hinge'
        'softmax' is minus the logarithm of the probability of the truth, ``p(y) ~ exp(w'phi(x,
        y))``: a conditional random field, for chains.  Losses L_i and node weights are no part of
        it, averaging and what is remembered neither.
    C : float, optional
        ``lambda = 1/(C n)``, n the sum of the weights of the examples.
    lam : float or 'auto', default='auto'
        lambda itself; takes the place of C.  'auto', without C, is ``|psi|²/(10 L n)``, with means
        of ``|psi_i(y)|²`` and ``L_i(y)`` over 100 examples at the labelings of largest loss: the
        units of features and losses do not matter.  For 'softmax' it is ``|psi|²/(50 L n)``, L
        being the number of labels.
    solver : str, default='bcfw'
        Block-coordinate Frank-Wolfe with plain steps ('bcfw'), with 'bcfw-pairwise' or
        'bcfw-away' steps or the best of the three ('bcfw-auto'); Frank-Wolfe on all examples at
        once ('fw'); the stochastic 'subgradient' baseline; the dual 'extragradient' method.
    sampling : {'permuted', 'uniform', 'gap'}, default='permuted'
        The order in which block solvers visit the examples.
    averaging : bool, default=True
        Return the weighted average of all points, by block solvers and 'subgradient'; it predicts
        better than the last one.  The trace has the objectives of both.
    tol, atol : float, default=0 and 0.01
        Stop when ``gap_ <= max(atol, tol * |objective_|)``.  The objective is per example: its
        absolute gap does not scale with C or n.
    max_iter : int, default=1000
        Passes over the data; iterations of 'fw' and 'extragradient'.
    time_limit : float, optional
        Seconds.
    check_every : int, default=10
        Passes between the full looks that recompute the gap.
    cache_passes : int, default=5
        Corrective passes over the stored labelings after each pass of oracle calls, for block
        solvers; those of 'bcfw' move weight from an example's worst labeling to its best.  0 gives
        the methods as they are in textbooks, which need several times as many oracle calls.
    cache_size : int, default=20
        Labelings that an example remembers for these passes beyond those that carry weight.
    geometry : {'entropic', 'euclidean'}, default='entropic'
        For 'extragradient': how distances of dual points are measured.
    radius : float, optional
        For 'extragradient': minimise the mean hinge over ``|w| <= radius`` instead.  The objective
        is then that mean and the gap the restricted one.
    fixed_step : bool, default=False
        For 'extragradient': keep to the steps that the theory allows, as published.  By default
        they are up to 8 times as long, for as long as the gap keeps what the theory promises, and
        the method starts again where it does not.  The trace has the gap of the averages (the
        restricted gap, with a radius) and the promised one, ``promised_gap``.
    warm_start : bool, default=False
        Start from the dual state of the last fit if the labelings are the same: block solvers for
        chains, graphs and tags; for other models and 'fw' if the features are the same too.
    n_jobs : int, optional
        Workers of the batch oracles, and threads of large matrix products; results do not depend
        on the workers.  None means 1 worker, and as many threads as BLAS is set to, -1 all cores.
    random_state : int, RandomState or None
        For the order of the examples.
    debug : bool, default=False
        Check every answer of the oracle, and what the model decodes there, slowly.
        :func:`cornerstep.structured.check_model` does more.
    callback : function, optional
        Called with an :class:`~cornerstep.optimiser.Iterate` after every iteration; training stops
        when it returns True.
    verbose : {0, 1, 2}, default=0

    Attributes
    ----------
    coef_ : array of shape (size,)
        w.  ``model_.split(coef_)`` names its parts where the model can.
    model_ : StructuredModel
        Prepared for the training data.
    lam_ : float
    machines_ : list of MachineProof
        What is proven, a single one: objective, bound, gap, status, iterations, trace.
    objective_, bound_, gap_ : float
        The certificate, recomputed at the end from the data in float64.
    relative_gap_ : float
        The gap divided by the objective.
    status_ : Status
        Why training stopped.
    n_iter_ : int
    n_oracle_calls_ : int
        Examples decoded for training, certificates apart.
    trace_ : Trace
        With ``dual`` and ``oracle_calls``; for block solvers also ``objective_last``,
        ``objective_average``, ``gap_last``, ``gap_average`` and, if fit was given validation data,
        ``score_last`` and ``score_average``.

    Examples
    --------
    >>> import numpy as np
    >>> from cornerstep import StructuredSVC
    >>> from cornerstep.structured import ChainModel
    >>> words = [np.eye(2)[[0, 1, 0]], np.eye(2)[[1, 0]], np.eye(2)[[0, 0, 1, 1]]]
    >>> labels = [["a", "b", "a"], ["b", "a"], ["a", "a", "b", "b"]]
    >>> clf = StructuredSVC(ChainModel(), C=10.0, random_state=0).fit(words, labels)
    >>> clf.status_.value, clf.gap_ <= 1e-2, clf.score(words, labels)
    ('solved', True, 1.0)
    """

    _state: tuple[Any, ...] | None = None  # of the last fit, for a warm start

    predicts_structures = True

    def __init__(
        self,
        model: Any,
        *,
        loss: str = "max-hinge",
        C: float | None = None,
        lam: float | str = "auto",
        solver: str = "bcfw",
        sampling: str = "permuted",
        averaging: bool = True,
        tol: float = 0.0,
        atol: float = 1e-2,
        max_iter: int = 1000,
        time_limit: float | None = None,
        check_every: int = 10,
        cache_passes: int = 5,
        cache_size: int = 20,
        geometry: str = "entropic",
        radius: float | None = None,
        fixed_step: bool = False,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        debug: bool = False,
        callback: Callback | None = None,
        verbose: int = 0,
    ) -> None:
        self.model = model
        self.loss = loss
        self.C = C
        self.lam = lam
        self.solver = solver
        self.sampling = sampling
        self.averaging = averaging
        self.tol = tol
        self.atol = atol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.check_every = check_every
        self.cache_passes = cache_passes
        self.cache_size = cache_size
        self.geometry = geometry
        self.radius = radius
        self.fixed_step = fixed_step
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.debug = debug
        self.callback = callback
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    check_parameters = parameters.check_parameters
    recompute = verification.recompute

    @classmethod
    def model_schema(cls) -> Schema:
        return SCHEMA

    def strongest(self) -> Weights | None:
        weights = self.model_.split(self.coef_)
        if "nodes" not in weights:
            return None
        return Weights(weights["nodes"].T, self.model_.labels_)

    def known_labels(self) -> Any:
        return getattr(self.model_, "labels_", ())

    def complete(self) -> None:
        super().complete()
        self.model_.complete()

    @property
    def reads_tables(self) -> bool:
        return isinstance(self.model, ChainModel)

    @classmethod
    def for_tables(cls) -> StructuredSVC:
        return cls(ChainModel())

    def table_inputs(self, table: Any) -> tuple[Any, Any]:
        X, y, _ = table.chains()
        return X, y

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        validation: tuple[Any, Any] | None = None,
    ) -> StructuredSVC:
        """Train on examples X with labelings y.

        Parameters
        ----------
        X : sequence of examples, or an array or CSR matrix with a row each
            With Dask bags of examples and labelings, in the same partitions, solver='fw' has the
            workers decode; all examples come by here once, for the model to prepare itself.
        y : sequence of labelings
        sample_weight : array of shape (n,), optional
            What each example weighs, 0 or more.
        validation : (X, y), optional
            Data that the models on the way are scored on, for ``trace_``.

        Returns
        -------
        self
        """
        self.check_parameters()
        if y is None:
            raise ValueError("StructuredSVC requires y to be passed, but the target y is None")
        bags = None
        if is_dask(X):
            from cornerstep.data.dask import computed
            from cornerstep.structured.dask_examples import Bags

            if self.solver != "fw" or self.warm_start:
                raise ValueError(
                    "solver must be 'fw' and warm_start False for Dask bags, got "
                    f"{self.solver!r} and {self.warm_start!r}"
                )
            bags, (sample_weight,) = Bags(X, y), computed(sample_weight)
            X, y = bags.X, bags.y
        X, y = (v if hasattr(v, "__len__") or sp.issparse(v) else np.asarray(v) for v in (X, y))
        n = _count(X)
        if n == 0 or n != _count(y):
            raise ValueError(
                f"X and y must be as many, at least one, got {n} examples and {_count(y)} labelings"
            )
        weights = example_weights(sample_weight, n)
        watched(self, X, y, partial(self._train, X, y, weights, bags, validation))
        self.warn_if_short()
        return self

    def _train(self, X: Any, y: Any, weights: FloatArray, bags: Any, validation: Any) -> None:
        from cornerstep.structured.training import train

        score = None
        if validation is not None:
            Z, z = validation
            _same_count(Z, z)
            score = lambda w: self._score(Z, z, w)  # noqa: E731
        settings = self.settings(score=score, start=self._state)
        X, y, kept = weighed(X, y, weights)
        model = copy.copy(self.model)
        model.prepare_weighted(X, y, kept)
        self.model_ = model
        if hasattr(model, "n_features_"):
            self.n_features_in_ = model.n_features_
        pose = partial(pose_examples, model, n_jobs=self.n_jobs, debug=self.debug, loss=self.loss)
        if bags is None:
            examples = pose(X, y, kept)
        else:
            from cornerstep.structured.dask_examples import SpreadExamples

            examples = SpreadExamples(bags, model.size, weights / weights.max(), pose)
        self.lam_ = lam_of(self, model, X, y, weights[weights > 0])
        prox, is_given = 0.0, self.C is not None or not isinstance(self.lam, str)
        if is_given and self.cache_passes and self.solver in parameters.BLOCK_SOLVERS:
            prox = prox_of(self.lam_, model, X, y, kept, self.loss)
        trained = train(StructuredProblem(examples, self.lam_, prox), settings)
        self.coef_ = trained.weights
        self.n_oracle_calls_ = trained.oracle_calls
        self._state = trained.state
        self.record([trained.proof])

    def settings(self, **more: Any) -> Any:
        """How to train, as the parameters say; the time limit begins to count."""
        from cornerstep.structured.training import Settings

        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return Settings(
            solver=self.solver,
            stopping=Stopping(float(self.atol), float(self.tol), self.max_iter, self.time_limit),
            rng=np.random.default_rng(seed), callback=iteration_callback(self),
            verbose=self.verbose, title=f"StructuredSVC, {self.solver}", sampling=self.sampling,
            averaging=self.averaging, check_every=self.check_every,
            cache_passes=self.cache_passes, cache_size=self.cache_size, geometry=self.geometry,
            radius=self.radius, fixed_step=self.fixed_step, keep_state=self.warm_start, **more,
        )  # fmt: skip

    def _decoded(self, X: Any, w: FloatArray) -> Any:
        """The model's answers, in chunks for several workers."""
        decode, jobs = self.model_.decode_batch, n_workers(self.n_jobs)
        n = _count(X)
        if jobs == 1 or n <= _CHUNK:
            return decode(X, w)
        from joblib import Parallel, delayed

        starts = range(0, n, _CHUNK)
        with Parallel(n_jobs=jobs, prefer=self.model_.workers) as parallel:
            parts = parallel(delayed(decode)(X[s : s + _CHUNK], w) for s in starts)
        if isinstance(parts[0], np.ndarray):
            return np.concatenate(parts)
        return [answer for part in parts for answer in part]

    def predict(self, X: Any) -> Any:
        """The labeling of largest score for each example.

        Parameters
        ----------
        X : sequence of examples

        Returns
        -------
        list of labelings, or an array where a labeling is one label or a row
        """
        check_is_fitted(self)
        _at_least_one(X)
        if not hasattr(self.model_, "encode_chains"):  # encoding checks
            self.model_.check(X)
        return self._decoded(X, self.coef_)

    def score(self, X: Any, y: Any) -> float:
        """``1 - (mean loss)`` of the predictions: their accuracy, if the loss is a share.

        Parameters
        ----------
        X : sequence of examples
        y : sequence of labelings

        Returns
        -------
        float
        """
        check_is_fitted(self)
        _at_least_one(X)
        _same_count(X, y)
        return self._score(X, y, self.coef_)

    def losses(self, X: Any, y: Any, answers: Any) -> FloatArray:
        """The loss of each of the answers that :meth:`predict` gave."""
        return self.model_.loss_batch(X, y, answers)

    def _score(self, X: Any, y: Any, w: FloatArray) -> float:
        self.model_.check(X, y)
        losses = self.model_.loss_batch(X, y, self._decoded(X, w))
        return 1.0 - float(np.mean(losses))


def _count(X: Any) -> int:
    if sp.issparse(X) or hasattr(X, "shape"):
        return int(X.shape[0]) if X.ndim else 0
    return len(X)


def _at_least_one(X: Any) -> None:
    if _count(X) == 0:
        raise ValueError("X must have at least one example, got none")


def _same_count(X: Any, y: Any) -> None:
    if _count(X) != _count(y):
        raise ValueError(f"X and y must be as many, got {_count(X)} and {_count(y)}")
