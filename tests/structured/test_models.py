"""Models: decoders against brute force, errors that name what is wrong, the checker itself."""

import itertools
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from cornerstep import StructuredSVC, certify
from cornerstep.structured import (
    ChainModel,
    GraphModel,
    MatchingModel,
    MulticlassModel,
    MultilabelModel,
    check_model,
)
from cornerstep.structured.problem import ModelExamples
from support.structured_problems import (
    PROBLEMS,
    Ranking,
    chains,
    graphs,
    matchings,
    rankings,
    rows,
    tags,
)


@pytest.mark.parametrize("name", PROBLEMS)
def test_decoders_equal_brute_force(name):
    model, X, Y = PROBLEMS[name]
    keep = slice(0, 6)
    check_model(model, X[keep], Y[keep], n_trials=8)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("transitions", [True, False])
@pytest.mark.parametrize("biases", [True, False])
def test_chain_decoding_over_all_small_shapes(seed, transitions, biases):
    rng = np.random.default_rng(seed)
    for length, n_labels in itertools.product(range(1, 5), range(2, 4)):
        x = rng.standard_normal((length, 2))
        weights = rng.uniform(size=length)
        y = rng.integers(n_labels, size=length)
        model = ChainModel(transitions, biases, labels=range(n_labels))
        check_model(model, [x, (x, weights)], [y, y], n_trials=3, random_state=seed)


def test_sparse_and_dense_chains_agree():
    X, Y = chains(n=20)
    X = [np.where(np.abs(x) > 0.5, x, 0.0) for x in X]
    dense = StructuredSVC(ChainModel(), random_state=0).fit(X, Y)
    sparse = StructuredSVC(ChainModel(), random_state=0).fit([sp.csr_matrix(x) for x in X], Y)
    np.testing.assert_allclose(dense.coef_, sparse.coef_, atol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_min_cut_equals_brute_force(seed):
    rng = np.random.default_rng(seed)
    (x,), (y,) = graphs(n=1, seed=seed, nodes=(4, 9), extra=6)
    model = GraphModel(labels=[0, 1])
    model.prepare([x], [y])
    w = rng.standard_normal(model.size)
    edges = model.split(w)["edges"]
    edges[:, 0, 0] += 1.01 * np.abs(edges).sum()  # attraction
    answer = model.loss_augmented_decode(x, y, w)
    assert set(model.inference_) == {"min-cut"}
    value = {
        o: model.loss(x, y, np.array(o)) + model.joint_feature(x, np.array(o)) @ w
        for o in itertools.product((0, 1), repeat=len(y))
    }
    assert value[tuple(answer)] == pytest.approx(max(value.values()), abs=1e-10)


def test_fractional_relaxations_bound_every_labeling_and_are_counted(monkeypatch):
    monkeypatch.setattr("cornerstep.structured.models.inference._FEW", 0)
    model = GraphModel(labels=[0, 1, 2])
    X, _ = graphs(n=6, nodes=(3, 4), n_labels=3)
    Y = [np.arange(len(x[0])) % 3 for x in X]
    model.prepare(X, Y)
    rng = np.random.default_rng(0)
    for _ in range(5):
        w = rng.standard_normal(model.size) * 3
        for x, y in zip(X, Y, strict=True):
            answer = model.loss_augmented_decode(x, y, w)
            reached = model.loss(x, y, answer) + model.joint_feature(x, answer) @ w
            others = model.labelings(x)
            assert others is not None
            best = max(model.loss(x, y, o) + model.joint_feature(x, o) @ w for o in others)
            assert reached >= best - 1e-8
    used = dict(model.inference_)
    assert set(used) <= {"messages", "lp", "lp, fractional"}
    assert used["lp, fractional"] > 0


def test_graph_model_says_which_inference_was_used():
    X, Y = graphs(n=4, nodes=(4, 4))
    clf = StructuredSVC(GraphModel(labels=[0, 1]), random_state=0).fit(X, Y)
    assert set(clf.model_.inference_) <= {"independent", "min-cut", "enumeration"}
    assert pickle.loads(pickle.dumps(clf)).score(X, Y) == clf.score(X, Y)


def test_chow_liu_tree_joins_dependent_tags():
    rng = np.random.default_rng(0)
    first = rng.integers(2, size=500)
    Y = np.column_stack([first, rng.integers(2, size=500), first ^ (rng.random(500) < 0.05)])
    model = MultilabelModel("tree")
    model.prepare(rng.standard_normal((500, 2)), Y)
    assert [0, 2] in model.edges_.tolist()
    assert len(model.edges_) == 2


# ---------------------------------------------------------------- errors


def _fit(model, X, Y, **options):
    return StructuredSVC(model, random_state=0, **options).fit(X, Y)


CHAIN_X, CHAIN_Y = chains(n=4)


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        ([np.ones((2, 3)), np.ones((0, 3))], [[0, 1], []], r"X\[1\].*empty"),
        ([np.ones((2, 3)), np.ones((2, 4))], [[0, 1], [0, 1]], r"X\[1\] must have 3 features"),
        ([np.ones((2, 3))], [[0, 1, 1]], r"Y\[0\] must have a label for each of the 2 nodes"),
        ([np.ones((2, 3)), np.full((1, 3), np.nan)], [[0, 1], [0]], r"X\[1\] must be finite.*nan"),
        ([np.ones(3)], [[0, 1, 1]], r"X\[0\] must be a matrix"),
        ([[[1.0, 2.0], [1.0]]], [[0, 1]], r"X\[0\] must be a matrix, got rows of different"),
        ([np.ones((2, 3))], [[[0, 1], [1]]], r"Y\[0\] must be a sequence of labels"),
        ([np.ones((2, 3))], [[0, 1], [1]], "as many"),
        ([], [], "at least one"),
        (
            [(np.ones((2, 3)), [1.0, -1.0])],
            [[0, 1]],
            "got -1.0 at node 1",
        ),
        ([(np.ones((2, 3)), [1.0, np.inf])], [[0, 1]], r"X\[0\] must have finite node weights"),
        ([(np.ones((2, 3)), [1.0])], [[0, 1]], "a node weight for each of its 2"),
    ],
)
def test_chain_input_errors(X, Y, message):
    with pytest.raises(ValueError, match=message):
        _fit(ChainModel(), X, Y)


def test_unseen_labels():
    clf = _fit(ChainModel(), CHAIN_X, CHAIN_Y)
    with pytest.raises(ValueError, match=r"Y\[0\] has the label 7, which is not one of"):
        clf.score(CHAIN_X[:1], [np.full(len(CHAIN_Y[0]), 7)])
    with pytest.raises(ValueError, match="has the label 'z'"):
        _fit(ChainModel(labels=["a", "b"]), [np.ones((1, 2))], [["z"]])
    X, y = rows()
    with pytest.raises(ValueError, match="has the label 9"):
        _fit(MulticlassModel(), X, y).score(X[:1], [9])
    with pytest.raises(ValueError, match="0 and 1"):
        _fit(MultilabelModel(), X, np.full((len(X), 2), 2))
    with pytest.raises(ValueError, match=r"^[^\n]{0,100} got 2$"):
        _fit(MultilabelModel(), X, np.full((len(X), 20), 2))
    X, Y = graphs(n=3)
    with pytest.raises(ValueError, match=r"Y\[0\] has the label 5"):
        _fit(GraphModel(labels=[0, 1]), X, [np.full_like(y, 5) for y in Y])
    X, Y = matchings(n=3)
    with pytest.raises(ValueError, match=r"Y\[0\] must be different columns"):
        _fit(MatchingModel(), X, [np.zeros(3, int)] * 3)


@pytest.mark.parametrize("name", ["multiclass", "multilabel", "graph", "matching"])
def test_nan_features(name):
    model, X, Y = PROBLEMS[name]
    if name == "graph":
        X = [(np.full_like(x[0], np.nan), *x[1:]) for x in X]
    else:
        X = [np.full_like(x, np.nan) for x in X]
    with pytest.raises(ValueError, match=r"finite|NaN"):
        _fit(model, X, Y)


class BadDecoder(Ranking):
    def loss_augmented_decode(self, x, y, w):
        return min(
            self.labelings(x), key=lambda o: self.loss(x, y, o) + self.joint_feature(x, o) @ w
        )


class SlightlyBadDecoder(Ranking):
    def loss_augmented_decode(self, x, y, w):  # forgets the loss
        return self.decode(x, w)


class BadLoss(Ranking):
    def loss(self, x, y, y_hat):
        return 1.0


class BadFeature(Ranking):
    def __init__(self):
        self.calls = 0

    def joint_feature(self, x, y):
        self.calls += 1
        return super().joint_feature(x, y) + self.calls


class BadDecode(Ranking):
    def decode(self, x, w):
        return tuple(range(len(x)))


class BadBatch(Ranking):
    def decode_batch(self, X, w):
        return [tuple(range(len(x))) for x in X]


@pytest.mark.parametrize(
    ("model", "function"),
    [
        (BadDecoder(), "loss_augmented_decode"),
        (SlightlyBadDecoder(), "loss_augmented_decode"),
        (BadLoss(), "loss"),
        (BadFeature(), "joint_feature"),
        (BadDecode(), "decode"),
        (BadBatch(), "decode_batch"),
    ],
)
def test_check_model_names_the_wrong_function(model, function):
    with pytest.raises(AssertionError, match=f"^{function} is probably wrong"):
        check_model(model, *rankings())


class Stubborn(Ranking):
    def loss_augmented_decode(self, x, y, w):
        return y[::-1]


@pytest.mark.parametrize("solver", ["bcfw", "fw", "subgradient"])
def test_training_stops_at_an_answer_worse_than_the_truth(solver):
    with pytest.raises(ValueError, match="loss_augmented_decode is probably wrong"):
        _fit(Stubborn(), *rankings(), solver=solver, C=100.0)


class Timid(Ranking):
    """Never worse than the truth: it is always the truth, whose loss is 0."""

    def loss_augmented_decode(self, x, y, w):
        return y


@pytest.mark.parametrize("solver", ["bcfw", "fw", "subgradient"])
def test_training_stops_at_an_answer_worse_than_that_of_decode(solver):
    with pytest.raises(ValueError, match="loss_augmented_decode is probably wrong"):
        _fit(Timid(), *rankings(), solver=solver)


@pytest.mark.parametrize("name", ["joint_feature", "loss", "loss_augmented_decode", "decode_batch"])
@pytest.mark.parametrize("base", [ChainModel, GraphModel, MultilabelModel, MulticlassModel])
def test_functions_that_compiled_code_would_not_ask_are_not_redefined(base, name):
    Own = type("Own", (base,), {name: lambda *given: getattr(base, name)(*given)})
    X, Y = {
        ChainModel: ([np.eye(2)], [[0, 1]]),
        GraphModel: ([(np.eye(2), np.array([(0, 1)]))], [[0, 1]]),
        MultilabelModel: (np.eye(2), np.eye(2, dtype=int)),
        MulticlassModel: (np.eye(2), [0, 1]),
    }[base]
    StructuredSVC(base()).fit(X, Y)
    with pytest.raises(TypeError, match=f"Own must not redefine {name}, "):
        StructuredSVC(Own()).fit(X, Y)


@pytest.mark.parametrize("model", [BadDecoder(), SlightlyBadDecoder()])
def test_debug_mode_tries_all_labelings_where_the_model_lists_them(model):
    with pytest.raises(ValueError, match="loss_augmented_decode is probably wrong"):
        _fit(model, *rankings(), debug=True)


@pytest.mark.parametrize(
    ("model", "function"),
    [
        (BadFeature(), "joint_feature"),
        (BadLoss(), "loss"),
        (BadDecode(), "decode"),
        (BadBatch(), "decode_batch"),
    ],
)
def test_debug_mode_names_the_wrong_function(model, function):
    with pytest.raises(ValueError, match=f"^{function} is probably wrong"):
        _fit(model, *rankings(), debug=True)


@pytest.mark.parametrize("solver", ["bcfw", "fw", "subgradient"])
def test_debug_mode_checks_decode_without_a_list_of_labelings(solver):
    class Backwards(Ranking):
        def decode(self, x, w):
            return min(Ranking().labelings(x), key=lambda o: self.joint_feature(x, o) @ w)

        def labelings(self, x):
            return None

        def loss_augmented_decode(self, x, y, w):
            return Ranking().loss_augmented_decode(x, y, w)

    with pytest.raises(ValueError, match=r"^decode is probably wrong: its answer for example"):
        _fit(Backwards(), *rankings(), solver=solver, debug=True)


def test_debug_mode_does_not_blame_a_relaxation_for_rounding():
    edges = np.array([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)])
    X, Y = [(np.zeros((18, 1)), edges)], [np.tile([0, 1, 1], 6)]
    model = GraphModel(labels=[0, 1])
    model.prepare(X, Y)
    assert model.exact
    w = np.array([0.0, 0.0, -1.0, 0.0, 0.0, -1.0])  # neighbours should differ, of three cannot
    examples = ModelExamples(model, X, Y, debug=True)
    best = 4.0  # of each triangle the truth has two edges that differ, the relaxation three
    assert examples.hinges(w)[0] >= 6.0 - best
    assert model.inference_["lp, fractional"] > 0
    assert not model.exact


@pytest.mark.parametrize("name", sorted(PROBLEMS))
def test_debug_mode_finds_nothing_wrong_with_the_models(name):
    model, X, Y = PROBLEMS[name]
    X, Y = X[:6], Y[:6]
    checked, plain = (_fit(model, X, Y, lam=0.1, tol=0.2, debug=debug) for debug in (True, False))
    assert checked.bound_ <= plain.objective_ + 1e-9
    assert plain.bound_ <= checked.objective_ + 1e-9


def test_debug_mode_finds_answers_worse_than_earlier_ones():
    class Forgetful(Ranking):
        def loss_augmented_decode(self, x, y, w):
            own = Ranking().loss_augmented_decode(x, y, w)
            return own if self.loss(x, y, own) > 0.7 else y

        def labelings(self, x):
            return None

        def decode(self, x, w):
            return Ranking().decode(x, w)

    with pytest.raises(ValueError, match="loss_augmented_decode is probably wrong"):
        _fit(Forgetful(), *rankings(), debug=True, tol=0.0, max_iter=20)


def test_missing_methods_are_named():
    from cornerstep.structured import StructuredModel

    class Nothing(StructuredModel):
        pass

    with pytest.raises(NotImplementedError, match="Nothing must define joint_feature"):
        _fit(Nothing(), [1], [1])


def test_tags_must_be_rectangular():
    X, _ = tags(n=2)
    with pytest.raises(ValueError, match="rows of 0 and 1"):
        _fit(MultilabelModel(), X, [[0, 1], [1]])


@pytest.mark.parametrize("factor", [1e-300, 1e160, 1e300])
@pytest.mark.parametrize("solver", ["bcfw-auto", "bcfw", "fw", "subgradient", "extragradient"])
@pytest.mark.parametrize(
    ("model", "make"),
    [
        (ChainModel, chains),
        (GraphModel, graphs),
        (MatchingModel, matchings),
        (MulticlassModel, rows),
    ],
)
def test_numbers_at_the_ends_of_float64_are_refused_clearly_or_certified(
    model, make, solver, factor
):
    X, Y = make(n=8)
    X = [(factor * x[0], x[1]) if isinstance(x, tuple) else factor * x for x in X]
    svm = StructuredSVC(model(), solver=solver, max_iter=3, random_state=0)
    if model is GraphModel and solver == "extragradient":
        svm.set_params(model=GraphModel(attractive=True), geometry="euclidean")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            svm.fit(X, Y)
        except ValueError as refusal:
            if "finite" in str(refusal):
                return
            raise
        assert 0 <= svm.gap_ <= svm.objective_
        assert certify(svm, X, Y).holds


def test_parameters_of_models_can_be_searched():
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((4, 3)) for _ in range(12)]
    Y = [rng.integers(0, 2, 4) for _ in X]
    search = GridSearchCV(StructuredSVC(ChainModel()), {"model__biases": [True, False]}, cv=2)
    search.fit(X, Y)
    assert set(search.best_params_) == {"model__biases"}
    kinds = ChainModel, GraphModel, MatchingModel, MulticlassModel, MultilabelModel
    for model in (kind() for kind in kinds):
        assert clone(model).get_params() == model.get_params()
