"""Constraints on chains: against enumeration and rules written as regular expressions."""

import itertools
import re

import numpy as np
import pytest

from cornerstep import StructuredSVC, certify, load, save
from cornerstep.structured import ChainModel, check_model
from support.structured_problems import optimum

BIO = ["B-a", "B-b", "I-a", "I-b", "O"]
BIOES = ["B-a", "B-b", "E-a", "E-b", "I-a", "I-b", "O", "S-a"]
PAIRS = [(None, "x"), ("x", "y"), ("z", None), ("y", "y")]
CASES = {"BIO": BIO, "BIOES": BIOES, "pairs": ["x", "y", "z"]}
RULES = {
    "BIO": r"(O |B-a (I-a )*|B-b (I-b )*)*",
    "BIOES": r"(O |S-a |B-a (I-a )*E-a |B-b (I-b )*E-b )*",
}


def model_of(name, **options):
    constraints = PAIRS if name == "pairs" else name
    return ChainModel(biases=True, labels=CASES[name], constraints=constraints, **options)


def problem(name, n=6, longest=3, seed=0):
    """Random sentences whose labels obey."""
    rng = np.random.default_rng(seed)
    model = model_of(name)
    X = [rng.standard_normal((int(rng.integers(1, longest + 1)), 2)) for _ in range(n)]
    model.prepare(X, [CASES[name]])
    every = [list(model.labelings(x)) for x in X]
    return X, [allowed[rng.integers(len(allowed))] for allowed in every]


@pytest.mark.parametrize("name", RULES)
def test_rules_by_name_are_the_regular_expressions(name):
    model = model_of(name)
    model.prepare([np.zeros((1, 2))], [CASES[name]])
    for length in range(1, 4):
        allowed = {" ".join(y) + " " for y in model.labelings(np.zeros((length, 2)))}
        every = (" ".join(y) + " " for y in itertools.product(CASES[name], repeat=length))
        assert allowed == {text for text in every if re.fullmatch(RULES[name], text)}


@pytest.mark.parametrize("name", CASES)
def test_decoders_find_the_best_of_what_is_allowed(name):
    X, Y = problem(name)
    check_model(model_of(name), X, Y, n_trials=6)


@pytest.mark.parametrize("solver", ["bcfw", "bcfw-auto", "fw", "subgradient", "extragradient"])
def test_every_solver_certifies_the_optimum_over_what_is_allowed(solver):
    pytest.importorskip("cvxpy")
    X, Y = problem("BIO")
    best = optimum(model_of("BIO"), X, Y, 0.2)
    assert best + 0.005 < optimum(ChainModel(biases=True, labels=BIO), X, Y, 0.2)
    clf = StructuredSVC(
        model_of("BIO"), lam=0.2, solver=solver, atol=0.005, max_iter=5000, random_state=0
    ).fit(X, Y)
    assert clf.gap_ <= 0.005
    assert clf.bound_ <= best + 1e-7
    assert best - 1e-7 <= clf.objective_
    assert certify(clf, X, Y).holds


@pytest.mark.parametrize("scale", [1.0, 300.0])  # the latter by logarithms
@pytest.mark.parametrize("constrained", [True, False])
@pytest.mark.parametrize("transitions", [True, False])
def test_n_best_and_marginals_are_those_of_enumeration(scale, constrained, transitions):
    if constrained and not transitions:
        pytest.skip("constraints need transitions")
    rng = np.random.default_rng(1)
    free = ChainModel(transitions, True, labels=CASES["pairs"])
    model = model_of("pairs") if constrained else free
    X = [rng.standard_normal((length, 2)) for length in (1, 2, 4)]
    model.prepare(X, [CASES["pairs"]])
    w = scale * rng.standard_normal(model.size)
    for x, found, marginals in zip(
        X, model.decode_n_best(X, w, 7), model.marginals(X, w), strict=True
    ):
        every = list(model.labelings(x) or ())
        scores = np.array([model.joint_feature(x, y) @ w for y in every])
        order = np.argsort(-scores)[:7]
        assert [y.tolist() for y, _ in found] == [every[k].tolist() for k in order]
        np.testing.assert_allclose([s for _, s in found], scores[order], atol=1e-9 * scale)
        p = np.exp(scores - scores.max())
        mean = sum(
            q * (y[:, None] == model.labels_) for q, y in zip(p / p.sum(), every, strict=True)
        )
        np.testing.assert_allclose(marginals, mean, atol=1e-9)


def test_files_hold_constraints(tmp_path):
    X, Y = problem("pairs")
    clf = StructuredSVC(model_of("pairs"), C=1.0, random_state=0).fit(X, Y)
    save(clf, tmp_path / "m")
    again = load(tmp_path / "m")
    assert [y.tolist() for y in again.predict(X)] == [y.tolist() for y in clf.predict(X)]
    assert certify(again, X, Y).holds
    free = StructuredSVC(ChainModel(labels=CASES["pairs"]), C=1.0, random_state=0).fit(X, Y)
    free.model_ = clf.model_
    assert not certify(free, X, Y).holds


def test_a_warm_start_forgets_labelings_that_are_forbidden_now():
    X, Y = problem("BIO", n=12)
    clf = StructuredSVC(
        ChainModel(biases=True, labels=BIO), lam=0.02, warm_start=True, random_state=0
    ).fit(X, Y)
    clf.set_params(model=model_of("BIO")).fit(X, Y)
    fresh = StructuredSVC(model_of("BIO"), lam=0.02, random_state=0).fit(X, Y)
    assert clf.objective_ == fresh.objective_


@pytest.mark.parametrize(
    ("options", "Y", "message"),
    [
        ({"constraints": "BIO"}, [["O", "I-a"]], r"Y\[0\] at node 1 .* got 'I-a' after 'O'"),
        ({"constraints": "BIO"}, [["I-a", "O"]], "at node 0 .* got 'I-a' as the first label"),
        ({"constraints": "BIOES"}, [["S-a", "B-a"]], "at node 1 .* 'B-a' as the last label"),
        ({"constraints": "BIO"}, [["O", "E-a"]], "labels must be 'O' or B-TYPE, I-TYPE .*'E-a'"),
        ({"constraints": "IOB"}, [["O", "O"]], "constraints must be 'BIO', 'BIOES', a list"),
        ({"constraints": [("O",)]}, [["O", "O"]], "constraints must be .* pairs"),
        ({"constraints": [("O", "X")]}, [["O", "O"]], "labels that there are, got 'X'"),
        ({"constraints": [(None, "O")]}, [["O", "O"]], "allow no labeling of length 2, which X"),
        ({"constraints": "BIO", "transitions": False}, [["O", "O"]], "need transitions=True"),
    ],
)
def test_what_is_not_allowed_is_one_clear_error(options, Y, message):
    with pytest.raises(ValueError, match=message):
        StructuredSVC(ChainModel(**options)).fit([np.ones((2, 2))], Y)


def test_lengths_that_no_labeling_has_are_found():
    even = [(None, "b"), ("a", "a"), ("b", "b"), ("a", None)]  # abab
    X = [np.ones((length, 1)) for length in (2, 4, 2)]
    clf = StructuredSVC(ChainModel(constraints=even), lam=1.0).fit(X, [list("ab" * (len(x) // 2))
                                                                       for x in X])  # fmt: skip
    assert clf.predict([np.ones((6, 1))])[0].tolist() == list("ababab")
    with pytest.raises(ValueError, match=r"no labeling of length 5, which X\[1\] has"):
        clf.predict([np.ones((2, 1)), np.ones((5, 1))])
