"""The losses as torch modules: the values of the library's, gradients by differences, batches as
torch's own losses take them."""

import re
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from cornerstep import MulticlassSVC  # noqa: E402
from cornerstep.losses import (  # noqa: E402
    CostSensitive,
    SimplexLoss,
    Softmax,
    TopKEntropy,
    make_loss,
)
from cornerstep.torch import MarginLoss  # noqa: E402

M = 6
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
COSTS = np.abs(np.random.default_rng(5).standard_normal((M, M)))
LOSSES: dict[str, Any] = {
    "max-hinge": {}, "cost-sensitive": {"costs": COSTS}, "top-k": {"k": 3}, "usunier": {"k": 2},
    "weighted-top-k": {"rho": [0.5, 0.3, 0.2]}, "weighted-usunier": {"rho": [0.6, 0.4]},
    "softmax": {}, "top-k-entropy": {"k": 3},
}  # fmt: skip


def batch(n=40, m=M, seed=0, dtype=torch.float64):
    rng = np.random.default_rng(seed)
    scores = torch.tensor(3 * rng.standard_normal((n, m)), dtype=dtype)
    return scores, torch.tensor(rng.integers(0, m, n))


@pytest.mark.parametrize("smoothing", [0.0, 0.01, 1.0, 30.0])
@pytest.mark.parametrize("name", LOSSES)
def test_values_are_those_of_the_library(name, smoothing):
    loss = make_loss(name, **LOSSES[name])
    if loss.entropic and smoothing == 0:
        pytest.skip("entropy needs smoothing")
    scores, labels = batch()
    of = scores.numpy(), labels.numpy()
    expected = loss.envelope(*of, smoothing) if smoothing else loss.value(*of)
    module = MarginLoss(name, **LOSSES[name], smoothing=smoothing, reduction="none")
    np.testing.assert_allclose(module(scores, labels).numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("loss", [Softmax(margin=0.7), TopKEntropy(2, margin=1.3)])
def test_entropic_losses_with_a_margin(loss):
    scores, labels = batch()
    scores.requires_grad_()
    module = MarginLoss(loss, smoothing=0.4, reduction="sum")
    module(scores, labels).backward()
    of = scores.detach().numpy(), labels.numpy(), 0.4
    assert module(scores, labels).item() == pytest.approx(loss.envelope(*of).sum(), rel=1e-12)
    np.testing.assert_allclose(scores.grad.numpy(), -loss.dual_point(*of), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_differences(name, reduction):
    weight = torch.linspace(0.5, 2.0, M)
    for smoothing in (0.3, 1.0):
        module = MarginLoss(
            name, **LOSSES[name], smoothing=smoothing, weight=weight, reduction=reduction
        )
        scores, labels = batch(8)
        scores.requires_grad_()
        assert torch.autograd.gradcheck(module, (scores, labels), atol=1e-6)


@pytest.mark.parametrize("name", [name for name in LOSSES if "entropy" not in name][:-1])
def test_without_smoothing_a_subgradient(name):
    module = MarginLoss(name, **LOSSES[name], smoothing=0.0, reduction="sum")
    (scores, labels), (others, _) = batch(), batch(seed=1)
    scores.requires_grad_()
    value = module(scores, labels)
    value.backward()
    for step in (1e-6, 1.0):
        there = scores.detach() + step * others
        least = value.item() + step * float((scores.grad * others).sum())
        assert float(module(there, labels)) >= least - 1e-9


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_softmax_is_cross_entropy_whatever_the_batch(reduction, weighted):
    rng = np.random.default_rng(0)
    weight = torch.tensor(rng.random(M)) if weighted else None
    ours = MarginLoss("softmax", weight=weight, reduction=reduction)
    peer = torch.nn.CrossEntropyLoss(weight=weight, reduction=reduction)
    wide = (
        torch.tensor(rng.standard_normal((5, M, 4, 3))),
        torch.tensor(rng.integers(0, M, (5, 4, 3))),
    )
    wide[1][0, 0, 0] = wide[1][3, 2, 1] = -100  # does not count
    one = wide[0][0, :, 0, 0], torch.tensor(2)
    for scores, labels in (batch(), wide, one):
        mine, theirs = (scores.clone().requires_grad_() for _ in range(2))
        values = ours(mine, labels), peer(theirs, labels)
        torch.testing.assert_close(*values)
        for value in values:
            value.sum().backward()
        torch.testing.assert_close(mine.grad, theirs.grad)


def test_a_batch_without_examples_that_count():
    scores, labels = batch(3)
    scores.requires_grad_()
    nothing = torch.full_like(labels, -100)
    assert MarginLoss(reduction="sum")(scores, nothing) == 0
    assert torch.isnan(MarginLoss()(scores, nothing))  # as CrossEntropyLoss has it
    assert MarginLoss(reduction="none")(scores[:0], labels[:0]).shape == (0,)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_loses_what_its_scores_lose_and_no_more(dtype):
    scores, labels = batch(200, dtype=dtype)
    for name, options in LOSSES.items():
        module = MarginLoss(name, **options)
        short, wide = scores.clone().requires_grad_(), scores.double().requires_grad_()
        value = module(short, labels)
        assert value.dtype == torch.float32
        torch.testing.assert_close(value.double(), module(wide, labels), rtol=1e-6, atol=1e-6)
        value.backward()
        module(wide, labels).backward()
        assert short.grad.dtype == dtype
        torch.testing.assert_close(short.grad.double(), wide.grad, rtol=0.02, atol=1e-4)


def test_under_autocast_and_in_a_network():
    torch.manual_seed(0)
    layer, (scores, labels) = torch.nn.Linear(M, M), batch(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(scores)
        value = MarginLoss("top-k", k=2)(out, labels)
    assert out.dtype == torch.bfloat16
    assert value.dtype == torch.float32
    value.backward()
    assert torch.isfinite(layer.weight.grad).all()
    module = MarginLoss("usunier", k=2, weight=torch.ones(M))
    again = MarginLoss("usunier", k=2, weight=torch.zeros(M))
    again.load_state_dict(module.state_dict())
    assert torch.equal(again(scores, labels), module(scores, labels))


@pytest.mark.parametrize("name", ["max-hinge", "top-k", "softmax"])
def test_a_layer_trained_with_it_ends_at_the_certified_optimum(name):
    """``|W|²/2 + C sum Phi_mu`` of full-batch L-BFGS lies between the bound and a little more."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 120)
    X = rng.standard_normal((4, 5))[y] + rng.standard_normal((120, 5))
    C, smoothing = 0.5, 1.0
    model = MulticlassSVC(
        loss=name, k=2, C=C, smoothing=smoothing, fit_intercept=False, tol=1e-7
    ).fit(X, y)
    W = torch.zeros(4, 5, dtype=torch.float64, requires_grad=True)
    rows, labels = torch.tensor(X), torch.tensor(y)
    module = MarginLoss(name, k=2, smoothing=smoothing, reduction="sum")
    optimiser = torch.optim.LBFGS(
        [W], max_iter=500, tolerance_grad=1e-10, line_search_fn="strong_wolfe"
    )

    def objective():
        return 0.5 * (W**2).sum() + C * module(rows @ W.T, labels)

    def closure():
        optimiser.zero_grad()
        value = objective()
        value.backward()
        return value

    optimiser.step(closure)
    value = float(objective().detach())
    assert model.bound_ - 1e-9 <= value <= model.objective_ * (1 + 1e-6)


def test_a_score_that_is_not_finite_loses_its_row_only():
    scores, labels = batch(4)
    scores[1, 2], scores[2, 0] = torch.nan, torch.inf
    scores.requires_grad_()
    values = MarginLoss(reduction="none")(scores, labels)
    values.sum().backward()
    assert torch.isnan(values).tolist() == [False, True, True, False]
    assert torch.isfinite(scores.grad).all(dim=1).tolist() == [True, False, False, True]


@pytest.mark.parametrize("smoothing", [0.0, 0.5])
@pytest.mark.parametrize("name", LOSSES)
def test_a_masked_class_is_as_if_it_were_not_there(name, smoothing):
    if smoothing == 0 and make_loss(name, **LOSSES[name]).entropic:
        pytest.skip("entropy needs smoothing")
    scores, labels = batch()
    labels = labels % (M - 1)
    others = LOSSES[name] | ({"costs": COSTS[:-1, :-1]} if "costs" in LOSSES[name] else {})
    few = scores[:, :-1].clone().requires_grad_()
    scores[:, -1] = -torch.inf
    scores.requires_grad_()
    more = MarginLoss(name, **LOSSES[name], smoothing=smoothing, reduction="none")(scores, labels)
    less = MarginLoss(name, **others, smoothing=smoothing, reduction="none")(few, labels)
    torch.testing.assert_close(more, less, rtol=1e-12, atol=1e-12)
    (more.sum() + less.sum()).backward()
    torch.testing.assert_close(scores.grad[:, :-1], few.grad, rtol=1e-12, atol=1e-12)
    assert (scores.grad[:, -1] == 0).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.parametrize("name", LOSSES)
def test_masked_labels_lose_all_and_masked_others_nothing(name, dtype, device):
    scores = torch.full((3, M), -torch.inf, dtype=dtype, device=device)
    scores[0, 1], scores[1, 1:] = 2.0, 2.0  # the last row: nothing but masks
    labels = torch.tensor([1, 0, 0], device=device)
    values = MarginLoss(name, **LOSSES[name], reduction="none")(scores.requires_grad_(), labels)
    assert values[0] == 0
    assert values[1] == torch.inf
    assert values[2].isnan()
    values[:2].sum().backward()
    assert scores.grad[:2].isfinite().all()


@pytest.mark.parametrize("name", ["max-hinge", "top-k", "weighted-usunier", "top-k-entropy"])
def test_second_derivatives_are_refused(name):
    scores, labels = batch()
    value = MarginLoss(name, **LOSSES[name])(scores.requires_grad_(), labels)
    with pytest.raises(RuntimeError, match=r"^MarginLoss has no second derivatives"):
        torch.autograd.grad(value, scores, create_graph=True)


@pytest.mark.parametrize("name", ["uint8", "int8", "int32", "uint16", "uint32"])
def test_labels_may_be_any_integers(name):
    scores, labels = batch()
    module = MarginLoss()
    assert module(scores, labels.to(getattr(torch, name))) == module(scores, labels)


class Mine(SimplexLoss):
    """Max hinge, as somebody else would write it."""

    def argmax(self, z, labels):
        beta = np.zeros_like(z)
        at = np.arange(len(z)), z.argmax(axis=1)
        beta[at] = z[at] > 0
        return beta


def test_a_loss_of_ones_own():
    scores, labels = batch()
    ours, theirs = MarginLoss(smoothing=0.0)(scores, labels), MarginLoss(Mine(), smoothing=0.0)
    torch.testing.assert_close(theirs(scores, labels), ours)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"loss": "hinge"}, "loss"),
        ({"smoothing": -1.0}, "smoothing"),
        ({"smoothing": float("nan")}, "smoothing"),
        ({"loss": "softmax", "smoothing": 0}, "smoothing"),
        ({"reduction": "average"}, "reduction"),
        ({"ignore_index": None}, "ignore_index"),
        ({"ignore_index": 1.5}, "ignore_index"),
        ({"weight": [[1.0]]}, "weight"),
        ({"weight": [1.0, -1.0]}, "weight"),
        ({"weight": [1.0, float("inf")]}, "weight"),
        ({"k": 0, "loss": "top-k"}, "k "),
        ({"loss": CostSensitive(np.ones((2, M)), per_example=True)}, "loss"),
    ],
)
def test_wrong_parameters_are_named(options, names):
    with pytest.raises(ValueError, match=f"^{re.escape(names)}"):
        MarginLoss(**options)


@pytest.mark.parametrize(
    ("scores", "labels", "names"),
    [
        (torch.zeros(2, M, dtype=torch.int64), torch.tensor([0, 1]), "scores"),
        (torch.zeros(2, M, dtype=torch.complex64), torch.tensor([0, 1]), "scores"),
        (torch.tensor(1.0), torch.tensor(0), "scores"),
        (torch.zeros(2, M).numpy(), torch.tensor([0, 1]), "scores"),
        (torch.zeros(2, M), [0, 1], "labels"),
        (torch.zeros(2, M), torch.softmax(torch.zeros(2, M), 1), "labels"),
        (torch.zeros(2, M), torch.tensor([0.0, 1.0]), "labels"),
        (torch.zeros(2, M), torch.tensor([True, False]), "labels"),
        (torch.zeros(2, M), torch.tensor([0, 1, 2]), "labels"),
        (torch.zeros(2, M), torch.tensor([0, M]), "labels"),
        (torch.zeros(2, M), torch.tensor([0, -1]), "labels"),
        (torch.zeros(2, M), torch.zeros(2, dtype=torch.int64, device="meta"), "labels"),
        (torch.zeros(2, 3), torch.tensor([0, 1]), "weight"),
    ],
)
def test_wrong_batches_are_named(scores, labels, names):
    with pytest.raises(ValueError, match=f"^{names}"):
        MarginLoss(weight=torch.ones(M))(scores, labels)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
@pytest.mark.parametrize("name", LOSSES)
def test_cuda_says_what_the_cpu_says(name, smoothing, dtype):
    if smoothing == 0 and make_loss(name, **LOSSES[name]).entropic:
        pytest.skip("entropy needs smoothing")
    module = MarginLoss(name, **LOSSES[name], smoothing=smoothing, reduction="none")
    scores, labels = batch(500, dtype=dtype)
    # of margins that tie each may be taken
    z = scores.double() - scores.double().gather(1, labels[:, None]) + 1
    told_apart = (z.sort(dim=1).values.diff(dim=1).abs().min(dim=1).values > 1e-6) & (
        z.abs().min(dim=1).values > 1e-6
    )
    scores, labels = scores[told_apart], labels[told_apart]
    labels[7] = -100
    here, there = scores.clone().requires_grad_(), scores.cuda().requires_grad_()
    values = module(here, labels), module(there, labels.cuda()).cpu()
    torch.testing.assert_close(*values, rtol=1e-6, atol=1e-6)
    for value in values:
        value.sum().backward()
    few = 1e-6 if dtype != torch.bfloat16 else 1e-2
    torch.testing.assert_close(there.grad.cpu(), here.grad, rtol=few, atol=few)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_cuda_labels_that_are_no_class_have_no_loss():
    scores, labels = batch(4)
    labels[1], labels[2] = M, -1
    values = MarginLoss(reduction="none")(scores.cuda(), labels.cuda())
    assert torch.isnan(values).tolist() == [False, True, True, False]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", [name for name in LOSSES if name != "softmax"])
def test_cuda_batches_with_weights_and_labels_that_do_not_count(name, reduction):
    torch.manual_seed(0)
    scores, labels = torch.randn(40, M), torch.randint(0, M, (40,))
    labels[::5] = -100
    scores[3, (labels[3] + 1) % M] = -torch.inf
    weight = torch.rand(M)
    found = []
    for device in ("cpu", "cuda"):
        module = MarginLoss(name, weight=weight, reduction=reduction, **LOSSES[name]).to(device)
        given = scores.clone().to(device).requires_grad_()
        value = module(given, labels.to(device))
        value.sum().backward()
        found.append((value.detach().cpu(), given.grad.cpu()))
    for here, there in zip(*found, strict=True):
        torch.testing.assert_close(here, there, rtol=1e-4, atol=1e-5)
