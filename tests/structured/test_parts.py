"""Blocks of labelings in parts: steps, compiled decoding, and small lambdas."""

import itertools
import warnings
from collections import Counter

import numpy as np
import pytest

from cornerstep import StructuredSVC, certify
from cornerstep.structured import GraphModel, MultilabelModel
from cornerstep.structured.models.inference import Inference
from cornerstep.structured.problem import ModelExamples, pose_examples
from support.structured_problems import PROBLEMS, graphs

IN_PARTS = [name for name, (model, _, _) in PROBLEMS.items() if hasattr(model, "encode_parts")]


def posed(name, weights=None):
    """A problem in parts, and the same one by the methods of its model."""
    model, X, Y = PROBLEMS[name]
    model.prepare(X, Y)
    weights = np.ones(len(X)) if weights is None else weights
    return pose_examples(model, X, Y, weights, None), ModelExamples(model, X, Y, weights)


@pytest.mark.parametrize("name", IN_PARTS)
def test_hinges_and_images_are_those_of_the_model(name):
    rng = np.random.default_rng(0)
    n = len(PROBLEMS[name][1])
    compiled, general = posed(name, rng.uniform(0.2, 1, n))
    assert type(compiled) is not ModelExamples
    for scale in (0.0, 0.1, 3.0):
        w = scale * rng.standard_normal(compiled.size)
        np.testing.assert_allclose(compiled.hinges(w), general.hinges(w), atol=1e-9)
    one, other = compiled.corners(w), general.corners(w)
    assert one.losses == pytest.approx(other.losses, abs=1e-9)
    np.testing.assert_allclose(one.image, other.image, atol=1e-9)


@pytest.mark.parametrize("name", IN_PARTS)
@pytest.mark.parametrize("rule", ["bcfw", "bcfw-pairwise", "bcfw-away", "bcfw-auto"])
def test_steps_never_lower_the_dual_and_keep_w(name, rule):
    """So planes are moved, dropped and made room for without harm."""
    examples, _ = posed(name)
    blocks = examples.blocks(0.01, 3)
    rng, last = np.random.default_rng(0), 0.0
    for _ in range(12):
        blocks.sweep(rng.permutation(examples.n), rule, False)
        blocks.sweep(rng.permutation(examples.n), "bcfw-pairwise", True)
        assert blocks.dual() >= last - 1e-12
        last = blocks.dual()
    w, linear = blocks.w.copy(), blocks.linear
    blocks.rebuild()
    np.testing.assert_allclose(w, blocks.w, atol=1e-10)
    assert linear == pytest.approx(blocks.linear, abs=1e-12)
    again = examples.blocks(0.01, 3)
    again.restore(blocks.state())
    np.testing.assert_allclose(again.w, blocks.w, atol=1e-12)
    np.testing.assert_allclose(again.cache.products, blocks.cache.products, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_messages_prove_their_labelings(seed, monkeypatch):
    """Whatever is not fractional is the best of all labelings."""
    monkeypatch.setattr("cornerstep.structured.models.inference._FEW", 0)
    rng = np.random.default_rng(seed)
    edges = np.array([*itertools.pairwise(range(6)), (0, 5), (1, 4), (3, 0)])
    graph = Inference(6, edges, 3, Counter())
    for strength in (0.3, 1.0, 3.0):
        nodes = rng.standard_normal((6, 3))
        pairs = strength * rng.standard_normal((len(edges), 3, 3))
        labels = graph.best(nodes, pairs, relaxed=True)
        if isinstance(labels, tuple):
            continue

        def score(y, nodes=nodes, pairs=pairs):
            return nodes[range(6), y].sum() + pairs[range(len(edges)), *np.array(y)[edges.T]].sum()

        best = max(map(score, itertools.product(range(3), repeat=6)))
        assert score(labels) == pytest.approx(best, abs=1e-9)
    assert graph.used["messages"] > 0


@pytest.mark.parametrize("name", ["multilabel-full", "loops", "chain", "matching"])
def test_small_lambdas_are_solved_and_certified(name):
    """The optimum lies between bound and objective of a far better solution, and of this one."""
    model, X, Y = PROBLEMS[name]
    best = StructuredSVC(
        model, lam=3e-4, atol=1e-3, cache_passes=10, averaging=False, random_state=0, max_iter=3000
    ).fit(X, Y)
    assert best.status_.value == "solved"
    quick = StructuredSVC(model, lam=3e-4, random_state=1).fit(X, Y)
    assert quick.status_.value == "solved"
    assert quick.bound_ <= best.objective_
    assert best.bound_ <= quick.objective_
    assert certify(quick, X, Y).holds


def test_a_small_lambda_takes_few_passes():
    """What blocks hinder each other in, they do not in the problem that steps see."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 20))
    Y = ((X @ rng.standard_normal((20, 4)) + 2 * rng.standard_normal((300, 4))) > 0).astype(int)
    passes = []
    for cache_passes in (0, 5):  # without cached planes methods are as in textbooks
        clf = StructuredSVC(
            MultilabelModel("full"), lam=1 / 300, cache_passes=cache_passes, random_state=0,
            max_iter=300,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # textbook steps do not arrive
            passes.append(clf.fit(X, Y).n_iter_)
    assert clf.status_.value == "solved"
    assert 5 * passes[1] < passes[0]


def test_graphs_of_many_labelings_decode_by_messages():
    X, Y = graphs(n=6, nodes=(12, 14), n_labels=3)
    clf = StructuredSVC(GraphModel(), random_state=0).fit(X, Y)
    assert clf.model_.inference_["messages"] > 0
    assert certify(clf, X, Y).holds
