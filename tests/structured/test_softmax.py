"""The softmax over chains: enumeration, an independent minimiser, CRFsuite, bounds at any point."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from cornerstep import (
    MulticlassSVC,
    SequenceTagger,
    StructuredSVC,
    certificate,
    certify,
    load,
    regularization_path,
    save,
)
from cornerstep.structured import ChainModel, GraphModel, MulticlassModel
from cornerstep.structured.problem import pose_examples
from support.structured_problems import chains, rows

WALLS = [(0, 1), (None, 2), (1, None)]


def allowed(Y):
    """The same labels, where those that the walls forbid are 0."""
    answers = []
    for y in Y:
        y = np.array(y)
        while True:
            wrong = [t for t in range(1, y.size) if (y[t - 1], y[t]) == (0, 1)]
            wrong += [0] * int(y[0] == 2) + [y.size - 1] * int(y[-1] == 1)
            if not wrong:
                break
            y[wrong[0]] = 0
        answers.append(y)
    return answers


MODELS = {
    "plain": ChainModel(),
    "biases": ChainModel(biases=True),
    "no transitions": ChainModel(transitions=False),
    "walls": ChainModel(biases=True, labels=[0, 1, 2], constraints=WALLS),
}


def problem(name, n=8, seed=0):
    X, Y = chains(n=n, seed=seed)
    return MODELS[name], X, allowed(Y) if name == "walls" else Y


def by_enumeration(model, X, Y, lam, share):
    """Value and gradient of P at w, from joint features of all labelings."""
    model.prepare(X, Y)
    sums = [
        (np.array([model.joint_feature(x, z).dense() for z in model.labelings(x)]),
         model.joint_feature(x, y).dense())
        for x, y in zip(X, Y, strict=True)
    ]  # fmt: skip
    share = np.asarray(share) / np.sum(share)

    def value(w):
        total, slope = 0.5 * lam * w @ w, lam * w
        for p, (every, truth) in zip(share, sums, strict=True):
            scores = every @ w
            whole = logsumexp(scores)
            total += p * (whole - truth @ w)
            slope = slope + p * (np.exp(scores - whole) @ every - truth)
        return total, slope

    return value


@pytest.mark.parametrize("lam", [1.0, 0.03])
@pytest.mark.parametrize("name", MODELS)
def test_an_independent_minimiser_finds_no_less_than_the_bound(name, lam):
    model, X, Y = problem(name)
    share = np.arange(1.0, len(X) + 1)
    clf = StructuredSVC(model, loss="softmax", lam=lam, atol=1e-7, random_state=0)
    clf.fit(X, Y, share)
    value = by_enumeration(model, X, Y, lam, share)
    best = minimize(value, np.zeros(model.size), jac=True, method="L-BFGS-B",
                    options={"gtol": 1e-10, "ftol": 1e-15, "maxiter": 5000}).fun  # fmt: skip
    assert clf.gap_ <= 1e-7
    assert clf.bound_ - 1e-9 <= best <= clf.objective_ + 1e-12
    assert clf.objective_ == pytest.approx(value(clf.coef_)[0], rel=1e-12)
    # the gradient vanishes: features are as frequent as the model expects them to be
    assert np.linalg.norm(value(clf.coef_)[1]) <= np.sqrt(2e-7 * (lam + 30.0))


@pytest.mark.filterwarnings("ignore:StructuredSVC stopped")
@pytest.mark.parametrize("name", MODELS)
def test_objective_and_bound_hold_wherever_a_run_ends(name):
    model, X, Y = problem(name, n=4)
    for max_iter, lam in itertools.product((0, 2, 7), (10.0, 1e-2, 1e-9)):
        clf = StructuredSVC(model, loss="softmax", lam=lam, max_iter=max_iter, random_state=1)
        clf.fit(X, Y)
        value = by_enumeration(model, X, Y, lam, np.ones(len(X)))
        best = minimize(value, clf.coef_, jac=True, method="L-BFGS-B").fun
        assert clf.bound_ <= best * (1 + 1e-12)
        assert clf.objective_ == pytest.approx(value(clf.coef_)[0], rel=1e-9, abs=1e-10)
        assert clf.objective_ <= value(np.zeros(model.size))[0] * (1 + 1e-12)


def test_the_slope_of_the_losses_is_what_marginals_say():
    """Finite differences of the losses along a direction, and the expectations of sum-product."""
    model, X, Y = problem("walls")
    model.prepare(X, Y)
    examples = pose_examples(model, X, Y, np.ones(len(X)), None, loss="softmax")
    rng = np.random.default_rng(0)
    w, way = 2.0 * rng.standard_normal((2, model.size))
    image, _ = examples.prox("entropic", [(w, 1.0, 0.0)])
    ahead, behind = (examples.hinges(w + h * way).sum() for h in (1e-5, -1e-5))
    assert (ahead - behind) / 2e-5 == pytest.approx(-image @ way, rel=1e-7)


@pytest.mark.parametrize("size", [1e2, 1e3, 1e5])
def test_losses_of_large_scores(size):
    """Where products of exponentials underflow logarithms take over."""
    model, X, Y = problem("walls", n=20)
    model.prepare(X, Y)
    examples = pose_examples(model, X, Y, np.ones(len(X)), None, loss="softmax")
    w = size * np.random.default_rng(0).standard_normal(model.size)
    found = examples.hinges(w)
    for x, y, loss in zip(X, Y, found, strict=True):
        every = [model.joint_feature(x, z) @ w for z in model.labelings(x)]
        expected = logsumexp(every) - model.joint_feature(x, y) @ w
        assert loss == pytest.approx(expected, abs=1e-12 * size)


def test_chains_of_one_node_are_logistic_regression():
    X, y = rows()
    ours = StructuredSVC(MulticlassModel(), loss="softmax", lam=0.1, atol=1e-9, random_state=0).fit(
        X, y
    )
    theirs = MulticlassSVC("softmax", C=1 / (0.1 * y.size), tol=1e-9).fit(X, y)
    assert ours.objective_ == pytest.approx(0.1 * theirs.objective_, rel=1e-8)


def test_the_objective_is_that_of_crfsuite(tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    rng = np.random.default_rng(0)
    X = [(rng.random((int(rng.integers(1, 7)), 12)) < 0.3).astype(float) for _ in range(40)]
    Y = [rng.integers(0, 3, len(x)) for x in X]
    c2 = 0.7
    trainer = pycrfsuite.Trainer("lbfgs", {
        "c1": 0.0, "c2": c2, "feature.possible_states": True, "feature.possible_transitions": True,
        "epsilon": 1e-9, "delta": 1e-12, "max_iterations": 2000,
    }, verbose=False)  # fmt: skip
    for x, y in zip(X, Y, strict=True):
        trainer.append([[f"f{k}" for k in np.flatnonzero(row)] for row in x], [str(k) for k in y])
    trainer.train(str(tmp_path / "crf"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "crf"))
    info = tagger.info()
    model = ChainModel(labels=range(3))
    clf = StructuredSVC(model, loss="softmax", lam=2 * c2 / len(X), atol=1e-9, random_state=0)
    clf.fit(X, Y)
    parts = clf.model_.split(np.zeros_like(clf.coef_))
    for (name, label), weight in info.state_features.items():
        parts["nodes"][int(name[1:]), int(label)] = weight
    for (before, after), weight in info.transitions.items():
        parts["transitions"][int(before), int(after)] = weight
    w = np.concatenate([parts["nodes"].ravel(), parts["transitions"].ravel()])
    value = by_enumeration(clf.model_, X, Y, clf.lam_, np.ones(len(X)))(w)[0]
    assert value == pytest.approx(clf.objective_, rel=1e-6)
    assert clf.bound_ <= value


def test_weights_are_repetitions_and_fits_repeat():
    model, X, Y = problem("biases")
    twice = StructuredSVC(model, loss="softmax", lam=0.1, atol=1e-9, random_state=0)
    twice.fit([*X, X[0]], [*Y, Y[0]])
    again = StructuredSVC(model, loss="softmax", lam=0.1, atol=1e-9, random_state=0)
    again.fit(X, Y, np.array([2.0] + [1.0] * 7))
    assert abs(again.objective_ - twice.objective_) <= 2e-9
    same = StructuredSVC(model, loss="softmax", lam=0.1, atol=1e-9, random_state=0)
    same.fit(X, Y, np.array([2.0] + [1.0] * 7))
    np.testing.assert_array_equal(same.coef_, again.coef_)


def test_paths_start_from_the_dual_point_before():
    _, X, Y = problem("plain", n=30)
    svm = StructuredSVC(ChainModel(), loss="softmax", atol=1e-4, random_state=0)
    path = regularization_path(svm, X, Y, [0.1, 0.2])
    assert (path.column("gap_") <= 1e-4).all()
    svm.set_params(lam=0.1, warm_start=True).fit(X, Y)
    first = svm.n_iter_
    svm.fit(X, Y)
    assert svm.n_iter_ == 0 < first


def test_files_and_certificates(tmp_path):
    model, X, Y = problem("walls", n=20)
    clf = StructuredSVC(model, loss="softmax", lam=0.05, random_state=0).fit(X, Y)
    save(clf, tmp_path / "crf")
    read = load(tmp_path / "crf")
    assert read.loss == "softmax"
    assert certify(read, X, Y).holds
    assert certificate(read).status is clf.status_
    read.loss = "max-hinge"
    assert not certify(read, X, Y).holds


def test_a_tagger_with_probabilities():
    """Marginals at the optimum: every feature is as frequent as expected, up to lambda w."""
    rng = np.random.default_rng(0)
    words = [rng.choice(["a", "b", "c"], int(rng.integers(1, 6))).tolist() for _ in range(40)]
    labels = [["B-X" if word == "a" or rng.random() < 0.3 else "O" for word in s] for s in words]
    X = [[{"word": word} for word in s] for s in words]
    tagger = SequenceTagger(constraints="BIO", loss="softmax", lam=1e-3, atol=1e-9, random_state=0)
    tagger.fit(X, labels)
    expected = {"B-X": 0.0, "O": 0.0}
    for sentence in tagger.predict_marginals(X):
        for token in sentence:
            assert sum(token.values()) == pytest.approx(1.0)
            for label, probability in token.items():
                expected[label] += probability
    counts = {label: sum(y.count(label) for y in labels) for label in expected}
    weights = tagger.model_.split(tagger.coef_)["nodes"].sum(axis=0)
    for k, label in enumerate(tagger.classes_):
        slack = len(X) * 1e-3 * weights[k]
        assert counts[label] - expected[label] == pytest.approx(slack, abs=1e-2)
    assert certify(tagger, X, labels).holds
    by_path = SequenceTagger(loss="softmax", random_state=0).fit(X, labels)
    assert [point.factor for point in by_path.path_] == [1.0, 0.3, 0.1]
    assert by_path.gap_ <= by_path.atol


def test_what_the_loss_cannot_have():
    X, Y = chains(n=3)
    fits: dict[str, dict[str, Any]] = {
        "loss must be one of max-hinge, softmax, got 'hinge'": {"loss": "hinge"},
        "solver must be 'bcfw' with loss='softmax', got 'fw'": {"solver": "fw"},
        "debug must be False with loss='softmax'": {"debug": True},
        "needs a model whose labelings can be summed over": {"model": GraphModel()},
    }
    for message, options in fits.items():
        given: dict[str, Any] = {"model": ChainModel(), "loss": "softmax"} | options
        with pytest.raises(ValueError, match=message):
            StructuredSVC(**given).fit(X, Y)
    for message, options in itertools.islice(fits.items(), 1):
        with pytest.raises(ValueError, match=message):
            SequenceTagger(**options).fit([[{"a": 1}]], [["O"]])
    with pytest.raises(ValueError, match="solver must be 'bcfw' with loss='softmax'"):
        SequenceTagger(loss="softmax", solver="bcfw-away").fit([[{"a": 1}]], [["O"]])
