"""``SequenceTagger``: labels for the tokens of sentences, by a certified chain model.

Sentences become chains (:mod:`.tokens`, :mod:`.templates`), and the problem is that of
:class:`~cornerstep.StructuredSVC` on a :class:`~cornerstep.structured.ChainModel`, whose loss is
the number of wrong tokens over the mean length of a sentence: an error costs the same in a long
sentence as in a short one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from cornerstep.core.types import FloatArray
from cornerstep.learning.certificates import Certificate
from cornerstep.learning.claims import Recomputed
from cornerstep.learning.estimator import CertifiedEstimator, Weights
from cornerstep.learning.fitting import whole_fit
from cornerstep.learning.specs import Schema
from cornerstep.optimiser.loop import Callback
from cornerstep.structured import tagger_model_file, tokens, verification
from cornerstep.structured.entities import EntityScores, entity_scores
from cornerstep.structured.models.chain import ChainModel
from cornerstep.structured.models.constraints import require_possible
from cornerstep.structured.models.stacked import StackedChains
from cornerstep.structured.tagger_parameters import check_parameters
from cornerstep.structured.tagger_training import (
    PathPoint,
    encoded,
    fitted_svm,
    inner_svm,
    labels_of_tokens,
    listed,
    share_of_right,
    training_data,
)

_TAKEN = ("coef_", "model_", "lam_", "n_oracle_calls_", "n_features_in_")  # of the inner SVM


class SequenceTagger(CertifiedEstimator):
    r"""A tagger: a label for each token of a sentence, by a chain model with a certificate.

    .. math:: \min_w \tfrac{\lambda}{2} \|w\|^2 + \tfrac1n \sum_i \max_y
       \Bigl(\tfrac1\ell \sum_t [y_t \neq y_{it}] - w^\top \psi_i(y)\Bigr)

    or, with ``loss='softmax'``, minus the mean of ``log p(y_i)`` in place of the hinge.  The score
    of labels y is ``sum_t <W_{y_t}, x_t> + T_{y_t, y_t+1}`` with weights for the first
    and the last label; l is the mean length of a sentence.  After ``fit`` the optimum is known to
    lie between ``bound_`` and ``objective_``.

    Parameters
    ----------
    templates : sequence of str, default=()
        Features from neighbours: 'word[-2..2]' has the words from two before to two after, a
        feature each, 'word[-1..1]*2' the pairs of neighbours in that window, 'word[0]|pos[-1]' two
        values together; 'word.suffix3[0]' (prefix, lower, shape) what a word is made of.  Tokens
        are dicts then; entries that no template names are features too.
    constraints : {'BIO', 'BIOES'} or list of pairs, optional
        What no answer may have: ``('O', 'I-NP')`` forbids I-NP right after O, ``(None, 'I-NP')``
        as the first label, ``('B-NP', None)`` as the last one.  The names stand for the rules of
        such labels.  The labels given to ``fit`` must obey.
    min_count : int, default=1
        Features of fewer tokens are left out.
    hashing : int, optional
        How many columns names of features are hashed to; by default each name has its own.
    loss : {'max-hinge', 'softmax'}, default='max-hinge'
        'softmax' is minus the logarithm of the probability of a sentence's labels, ``p(y) ~
        exp(score)``: a conditional random field, whose marginals are probabilities.
    lam : float or 'auto', default='auto'
        lambda.  'auto' takes the best of a path: of 3, 1 and 1/3 times (softmax: 1, 0.3 and 0.1
        times) what :class:`~cornerstep.StructuredSVC` takes, that which finds most on a tenth of
        the sentences held out (F1 of entities where labels are of entities, else the share of right
        tokens).  Of fewer than ten sentences none is held out, and lambda is what
        :class:`~cornerstep.StructuredSVC` takes.
    solver : {'bcfw', 'bcfw-pairwise', 'bcfw-away', 'bcfw-auto'}, default='bcfw'
    averaging : bool, default=True
        Return the weighted average of all points; it predicts better than the last one.
    tol, atol : float, default=0 and 0.01
        Stop when ``gap_ <= max(atol, tol * |objective_|)``.
    max_iter : int, default=1000
        Passes over the data.
    time_limit : float, optional
        Seconds; the path for lambda may take half of them.
    n_jobs : int, optional
        Workers, see :class:`~cornerstep.StructuredSVC`.
    random_state : int, RandomState or None
        For the order of the sentences, and for those held out.
    callback : function, optional
        Called with an :class:`~cornerstep.optimiser.Iterate` after every iteration of the last
        fit; training stops when it returns True.
    verbose : {0, 1, 2}, default=0

    Attributes
    ----------
    classes_ : array of shape (m,)
        The labels.
    coef_ : array
        All weights; :attr:`state_features_` and :attr:`transition_features_` name them.
    model_ : ChainModel
    lam_ : float
    path_ : list of PathPoint
        What was tried for lambda: its value, what it found, and its certificate.  Not in files.
    machines_, objective_, bound_, gap_, relative_gap_, status_, n_iter_, trace_
        The certificate, as :class:`~cornerstep.StructuredSVC` has it.
    n_oracle_calls_ : int
        Sentences decoded by the last fit.

    Examples
    --------
    >>> from cornerstep import SequenceTagger
    >>> sentences = [["the", "cat", "sleeps"], ["cats", "sleep"], ["the", "sleep"]]
    >>> X = [[{"word": word} for word in sentence] for sentence in sentences]
    >>> y = [["B-NP", "I-NP", "O"], ["B-NP", "O"], ["B-NP", "I-NP"]]
    >>> tagger = SequenceTagger(["word[-1..1]"], constraints="BIO", lam=0.01, random_state=0)
    >>> tagger.fit(X, y).predict(X[:2])
    [['B-NP', 'I-NP', 'O'], ['B-NP', 'O']]
    """

    predicts_structures = True
    reads_tables = False
    reads_sentences = True

    path_: list[PathPoint]
    model_: ChainModel
    coef_: FloatArray
    lam_: float
    vocabulary_: tokens.Vocabulary | None
    tokens_: str

    def __init__(
        self,
        templates: Sequence[str] = (),
        *,
        constraints: Any = None,
        min_count: int = 1,
        hashing: int | None = None,
        loss: str = "max-hinge",
        lam: float | str = "auto",
        solver: str = "bcfw",
        averaging: bool = True,
        tol: float = 0.0,
        atol: float = 1e-2,
        max_iter: int = 1000,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        callback: Callback | None = None,
        verbose: int = 0,
    ) -> None:
        self.templates = templates
        self.constraints = constraints
        self.min_count = min_count
        self.hashing = hashing
        self.loss = loss
        self.lam = lam
        self.solver = solver
        self.averaging = averaging
        self.tol = tol
        self.atol = atol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    check_parameters = check_parameters

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SequenceTagger:
        """Train on sentences X with labels y.

        Parameters
        ----------
        X : sequence of sentences
            Each a list with a token's features per token, as a dict (name to number, string,
            boolean or list of strings) or as a list of strings; or an array or CSR matrix with a
            row per token.  Sentences without tokens are left out.
        y : sequence of sequences of str
            A label per token, or None where it is not known: sentences are cut there.
        sample_weight : array of shape (n,), optional
            What each sentence weighs, 0 or more.

        Returns
        -------
        self
        """
        self.check_parameters()
        X, y = listed(X, "X"), listed(y, "y")
        if len(X) != len(y):
            raise ValueError(f"X and y must be as many sentences, got {len(X)} and {len(y)}")
        with whole_fit(self):
            kind = tokens.kind_of(X)
            data, vocabulary = training_data(self, kind, X, y, sample_weight)
            self.path_, svm = fitted_svm(self, data)
            self.tokens_, self.vocabulary_ = kind, vocabulary
            for name in _TAKEN:
                setattr(self, name, getattr(svm, name))
            self.record(svm.machines_)
        self.warn_if_short()
        return self

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The labels, in order."""
        return self.model_.labels_

    @property
    def feature_names_in_(self) -> list[str]:
        """The names of the columns of ``coef_``, where they have any."""
        known: tokens.Vocabulary | None = getattr(self, "vocabulary_", None)
        if known is None:
            raise AttributeError("columns have names where tokens are words, without hashing")
        return known.names

    @property
    def state_features_(self) -> dict[tuple[str, str], float]:
        """The weights of features and labels that are not 0, by the names of both."""
        check_is_fitted(self)
        weights = self.model_.split(self.coef_)["nodes"]
        names, labels = self._column_names(), self.classes_.tolist()
        rows, columns = np.nonzero(weights)
        return {
            (names[k], labels[a]): float(weights[k, a])
            for k, a in zip(rows.tolist(), columns.tolist(), strict=True)
        }

    @property
    def transition_features_(self) -> dict[tuple[str, str], float]:
        """The weights of a label and the one after it, where constraints allow both."""
        check_is_fitted(self)
        weights = self.model_.split(self.coef_)["transitions"]
        labels, table = self.classes_.tolist(), self.model_.forbidden_
        return {
            (before, after): float(weights[a, b])
            for a, before in enumerate(labels)
            for b, after in enumerate(labels)
            if table is None or not table[a, b]
        }

    def top_features(self, label: str, n: int = 10) -> list[tuple[str, float]]:
        """The features of largest weight for a label, with their weights, largest first.

        Parameters
        ----------
        label : str
        n : int, default=10

        Returns
        -------
        list of (name, weight)
        """
        check_is_fitted(self)
        labels = self.classes_.tolist()
        if label not in labels:
            raise ValueError(f"label must be one of {', '.join(labels)}, got {label!r}")
        weights = self.model_.split(self.coef_)["nodes"][:, labels.index(label)]
        names = self._column_names()
        return [(names[k], float(weights[k])) for k in np.argsort(-weights, kind="stable")[:n]]

    def _column_names(self) -> Sequence[str]:
        known = self.vocabulary_
        return known.names if known else [f"feature {k + 1}" for k in range(self.n_features_in_)]

    def predict(self, X: Any) -> list[list[str]]:
        """The labels of the tokens of each sentence: those of largest score.

        Parameters
        ----------
        X : sequence of sentences

        Returns
        -------
        list of lists of str
            An empty one for a sentence without tokens.
        """
        chains, places = self._chains(X)
        answers = self.model_.decode_batch(chains, self.coef_) if len(chains) else []
        return _placed([labels.tolist() for labels in answers], places, len(X))

    def predict_n_best(self, X: Any, n: int = 5) -> list[list[tuple[list[str], float]]]:
        """The n labelings of largest score of each sentence, with their scores, best first.

        Parameters
        ----------
        X : sequence of sentences
        n : int, default=5

        Returns
        -------
        list of lists of (labels, score)
            Fewer where there are no more labelings.
        """
        if not (isinstance(n, int | np.integer) and n >= 1):
            raise ValueError(f"n must be an integer >= 1, got {n!r}")
        chains, places = self._chains(X)
        best = self.model_.decode_n_best(chains, self.coef_, int(n)) if len(chains) else []
        answers = [[(labels.tolist(), score) for labels, score in each] for each in best]
        return _placed(answers, places, len(X))

    def predict_marginals(self, X: Any) -> list[list[dict[str, float]]]:
        """How sure each label of each token is: softmax over all labelings, ``p(y) ~ exp(score)``.

        With ``loss='softmax'`` these are the probabilities that the model was trained for; with
        'max-hinge' it was not, and they are not calibrated.

        Parameters
        ----------
        X : sequence of sentences

        Returns
        -------
        list of lists of dict
            For each token its labels, and numbers that sum to 1.
        """
        chains, places = self._chains(X)
        labels = self.classes_.tolist()
        answers = [
            [dict(zip(labels, row, strict=True)) for row in rows.tolist()]
            for rows in (self.model_.marginals(chains, self.coef_) if len(chains) else [])
        ]
        return _placed(answers, places, len(X))

    def score(self, X: Any, y: Any) -> float:
        """The share of tokens whose label is right.

        Parameters
        ----------
        X : sequence of sentences
        y : sequence of sequences of str

        Returns
        -------
        float
        """
        X, y = listed(X, "X"), listed(y, "y")
        labels_of_tokens(X, y)
        return share_of_right(y, self.predict(X))

    def score_entities(self, X: Any, y: Any) -> EntityScores:
        """Precision, recall and F1 of whole entities, in all and per type.

        Parameters
        ----------
        X : sequence of sentences
        y : sequence of sequences of str
            Labels such as O, B-NP and I-NP.

        Returns
        -------
        EntityScores
        """
        return entity_scores(listed(y, "y"), self.predict(X))

    def _chains(self, X: Any) -> tuple[StackedChains, list[int]]:
        """The sentences that have tokens, and which they are."""
        check_is_fitted(self)
        X = listed(X, "X")
        ptr = tokens.boundaries(X)
        places = np.flatnonzero(np.diff(ptr)).tolist()
        rows = encoded(self, self.tokens_, X, self.vocabulary_, self.n_features_in_)
        chains = tokens.chains_of(rows, ptr)
        if self.model_.forbidden_ is not None:
            require_possible(
                self.model_.forbidden_, np.diff(chains.ptr).tolist(), lambda i: f"X[{places[i]}]"
            )
        return chains, places

    @classmethod
    def model_schema(cls) -> Schema:
        return tagger_model_file.SCHEMA

    def complete(self) -> None:
        super().complete()
        self.model_.complete()
        needs_words = self.tokens_ != tokens.MATRICES and self.hashing is None
        if needs_words and self.vocabulary_ is None:
            raise ValueError("vocabulary_ is missing, where tokens are words without hashing")

    def known_labels(self) -> Any:
        return self.classes_

    def strongest(self) -> Weights:
        return Weights(self.model_.split(self.coef_)["nodes"].T, self.classes_)

    def words(self, X: Any) -> list[list[str]] | None:
        """The first word of each token: of a dict its first string, of a list its first entry."""
        if self.tokens_ == tokens.MATRICES:
            return None
        return [[_word(token) for token in sentence] for sentence in X]

    def losses(self, X: Any, y: Any, answers: Any) -> FloatArray:
        """The share of wrong tokens of each sentence, of answers that :meth:`predict` gave."""
        return np.array([1.0 - share_of_right([a], [b]) for a, b in zip(y, answers, strict=True)])

    def recompute(
        self, X: Any, y: Any, sample_weight: Any, claimed: Certificate, problems: list[str]
    ) -> Recomputed:
        X, y = listed(X, "X"), listed(y, "y")
        if self.tokens_ != tokens.kind_of(X):
            raise ValueError(f"X must have tokens as {self.tokens_!r}, as those of training")
        (chains, labels, weights), fresh = training_data(self, self.tokens_, X, y, sample_weight)
        names = [v.names if v else None for v in (fresh, self.vocabulary_)]
        if names[0] != names[1]:
            problems.append("vocabulary_ is not what the data make")
        svm = inner_svm(self, self.lam_)
        if not isinstance(self.lam, str) and self.lam != self.lam_:
            problems.append(f"lam_ is {self.lam_!r}, but lam is {self.lam!r}")
        for name in (*_TAKEN, "machines_", "status_"):
            setattr(svm, name, getattr(self, name))
        return verification.recompute(svm, chains, labels, weights, claimed, problems)


def _word(token: Any) -> str:
    values = token.values() if isinstance(token, Mapping) else token
    return next((value for value in values if isinstance(value, str)), "?")


def _placed(answers: list[Any], places: list[int], n: int) -> list[Any]:
    """Answers for n sentences: those that have tokens have one each, the others an empty one."""
    all_: list[Any] = [[] for _ in range(n)]
    for i, answer in zip(places, answers, strict=True):
        all_[i] = answer
    return all_
