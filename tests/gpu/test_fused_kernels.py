"""The fused kernels against the array code, on a GPU: every loss, hostile rows, and all end.

Nothing but torch, pytest and the package is needed.  A kernel that does not end cannot be
interrupted, so that a failure of that kind shows as a run that hangs.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="Triton is not installed")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

from cornerstep.losses import Softmax, TopKEntropy, make_loss  # noqa: E402
from cornerstep.multiclass.arrays import vertices as array_points  # noqa: E402
from cornerstep.multiclass.arrays.rows import ArrayExamples, ArrayProblem  # noqa: E402

LOSSES = (
    "max-hinge", "cost-sensitive", "top-k", "usunier", "weighted-top-k", "weighted-usunier",
)  # fmt: skip
KINDS = (
    "ordinary", "ties", "equal", "boundary", "separable", "huge", "denormal", "infinite", "nan",
)  # fmt: skip
WIDTHS = (*range(2, 36), 64, 65, 100, 128, 129, 397, 1000, 1024, 1025, 4096, 4097, 8192, 8193)
ROWS, ENTRIES = 20_000, 2**25


def _drawn_loss(name, m, n, rng):
    """A loss with K from 1 to 32 weights, m the number of classes."""
    K = int(rng.integers(1, min(32, m - 1) + 1))
    if name in ("top-k", "usunier"):
        return make_loss(name, k=K, rho=None, costs=None)
    if name.startswith("weighted"):
        rho = np.sort(rng.random(K))[::-1] + 1e-3
        if rng.random() < 0.3:
            rho[: K // 2] = rho[0]  # equal weights in part
        return make_loss(name, k=K, rho=rho / rho.sum(), costs=None)
    if name == "cost-sensitive":
        each = rng.random() < 0.5
        costs = rng.random((n if each else m, m)) + 0.1
        return make_loss(name, k=K, rho=None, costs=costs, per_example=each)
    return make_loss(name, k=K, rho=None, costs=None)


def _drawn_scores(kind, n, m, labels, dtype, generator):
    """Rows of scores, hostile in the way that ``kind`` says."""
    z = torch.randn((n, m), dtype=torch.float64, device="cuda", generator=generator)
    own = torch.arange(m, device="cuda")[None, :] == labels[:, None]
    if kind == "ties":
        z = torch.round(2 * z)
    elif kind == "equal":
        z = z[:, :1].expand(n, m).clone()
    elif kind == "boundary":  # the losses of whole sums are rounding errors around 0
        z = torch.where(own, 1.0, z - z.mean(1, keepdim=True))
    elif kind == "separable":
        z = 1e3 * z + torch.where(own, 1e4 * z[:, :1].abs(), 0.0)
    elif kind == "huge":
        z = z * (1e290 if dtype == torch.float64 else 1e30)
    elif kind == "denormal":
        z = z * (1e-310 if dtype == torch.float64 else 1e-40)
    elif kind in ("infinite", "nan"):
        hit = torch.rand((n, m), device="cuda", generator=generator) < 1.5 / m
        value = float("nan") if kind == "nan" else float("inf")
        sign = torch.where(torch.rand((n, m), device="cuda", generator=generator) < 0.5, 1.0, -1.0)
        z = torch.where(hit, value * sign, z)
    if dtype == torch.bfloat16:  # scores of such data are float32, with few digits here
        return z.to(dtype).float()
    return z.to(dtype)


def _problem(loss, labels, m, dtype, generator):
    n = labels.shape[0]
    examples = ArrayExamples(torch.zeros((n, 2), dtype=dtype, device="cuda"))
    scales = 0.1 + torch.rand(n, dtype=torch.float64, device="cuda", generator=generator)
    return ArrayProblem(examples, labels, m, loss, scales)


def _margins(problem, scores):
    block = slice(0, scores.shape[0])
    deltas = problem.losses.deltas(block, problem.labels, torch.float64)
    return problem.losses.margins(scores.double(), problem.labels, deltas), deltas


def _inside(problem, beta, slack):
    """Which rows of beta, 0 at the label, lie in the domain widened by ``slack``.

    *each*: the sum of the j largest is at most that of the first j of rho.  *whole*: for some
    ``s <= 1`` that holds of ``beta / s`` with an entry of the label's added so that the sums of
    all are equal.
    """
    m, rho = beta.shape[1], problem.losses.rho
    top = beta.sort(dim=1, descending=True).values[:, : m - 1].cumsum(1)
    limits = torch.nn.functional.pad(rho, (0, m - rho.shape[0])).cumsum(0)
    inside = (beta >= -slack).all(1)
    if not problem.loss.whole:
        return inside & (top <= limits[None, :-1] + slack).all(1)
    least = ((top - slack) / limits[None, :-1]).amax(1)
    before = torch.nn.functional.pad(top, (1, 0))
    left = limits[-1] - limits
    rooms = (top[:, -1:] - before + slack) / torch.where(left > 1e-12, left, 1.0)
    most = torch.where(left > 1e-12, rooms, float("inf")).amin(1)
    return inside & (least <= most.clamp(max=1.0))


def _check_corners(problem, scores, dtype):
    n, m = scores.shape
    z, _ = _margins(problem, scores)
    expected = problem.losses.corners(scores.double(), problem.labels, _margins(problem, scores)[1])
    find, none = array_points.corners_on_gpu(problem), torch.zeros((n, 0), device="cuda")
    probed = torch.zeros((m, 0), dtype=torch.float64, device="cuda")
    values, linear, points, _ = find(slice(0, n), scores.clone(), none.double(), probed)
    values, linear = values / problem.scales, linear / problem.scales
    alpha = points.double() * (problem.unit / problem.scales)[:, None]
    own = torch.arange(m, device="cuda")[None, :] == problem.labels[:, None]
    beta = torch.where(own, 0.0, -alpha)
    size = z.abs().amax(1) + 1.0
    eps = 1e-13 if dtype == torch.float64 else 4e-6
    fine = torch.isfinite(z).all(1)
    unknown = torch.isnan(z).any(1)
    assert bool(torch.isnan(values[unknown]).all())
    assert bool(((values - expected[0]).abs() <= eps * size)[fine].all())
    attained = (beta * torch.where(beta > 0, z, 0.0)).sum(1)
    rounding = {torch.float64: 1e-13, torch.float32: 4e-6, torch.bfloat16: 3e-2}[points.dtype]
    off = (attained - expected[0]).abs()
    assert bool((off <= (4 * eps + rounding * problem.loss.rho.size) * size)[fine].all())
    assert bool(_inside(problem, beta, 32 * rounding)[~unknown].all())


def _check_nearest(problem, scores, smoothing):
    n, m = scores.shape
    z, deltas = _margins(problem, scores)
    _, exact = array_points.nearest_by_arrays(problem)(slice(0, n), scores.clone(), smoothing)[1:]
    expected = exact * (problem.largest / problem.scales)[:, None]
    numbers, _, exact = array_points.nearest_on_gpu(problem)(slice(0, n), scores.clone(), smoothing)
    alpha = exact * (problem.largest / problem.scales)[:, None]
    own = torch.arange(m, device="cuda")[None, :] == problem.labels[:, None]
    beta = torch.where(own, 0.0, -alpha)
    fine = torch.isfinite(z / smoothing).all(1)
    assert bool((torch.isnan(z).any() == torch.isnan(numbers[0])).all())
    assert bool(_inside(problem, beta, 1e-9)[fine].all())
    spread = (z.abs().amax(1) / smoothing)[:, None]
    close = (alpha - expected).abs() <= 1e-9 + 1e-14 * spread
    assert bool((close | (spread > 1e8))[fine].all())
    if bool(fine.all()):
        sums = problem.losses.values(scores.double(), problem.labels, deltas)
        wanted = (problem.scales * sums).sum()
        assert bool((numbers[0] - wanted).abs() <= 1e-10 * wanted.abs() + 1e-300)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", LOSSES)
def test_fused_kernels_agree_with_the_array_code(name, seed, record_property):
    """At least 10^6 rows a loss over the seeds; each is given to both kernels."""
    rng = np.random.default_rng([seed, LOSSES.index(name)])
    generator = torch.Generator(device="cuda").manual_seed(seed)
    rows = 0
    while rows < 260_000:
        m = int(rng.choice(WIDTHS))
        n = min(ROWS, ENTRIES // m)
        kind = str(rng.choice(KINDS))
        dtype = (torch.float32, torch.bfloat16, torch.float64)[rng.integers(3)]
        labels = torch.randint(m, (n,), device="cuda", generator=generator)
        problem = _problem(_drawn_loss(name, m, n, rng), labels, m, dtype, generator)
        scores = _drawn_scores(kind, n, m, labels, dtype, generator)
        _check_corners(problem, scores, dtype)
        _check_nearest(problem, scores, float(10.0 ** rng.uniform(-4, 1)))
        rows += n
    record_property("rows", rows)


def _check_entropies(problem, scores, smoothing):
    n, m = scores.shape
    z, _ = _margins(problem, scores)
    spread = z.abs().amax(1) / smoothing
    fine = torch.isfinite(spread) & (spread < 1e250)
    sums, _, exact = array_points.nearest_by_arrays(problem)(slice(0, n), scores.clone(), smoothing)
    units = (problem.largest / problem.scales)[:, None]
    numbers, near, found = array_points.nearest_on_gpu(problem)(
        slice(0, n), scores.clone(), smoothing
    )
    alpha, expected = found * units, exact * units
    assert bool(((alpha - expected).abs() <= 1e-12 + 4e-15 * spread[:, None])[fine].all())
    own = torch.arange(m, device="cuda")[None, :] == problem.labels[:, None]
    beta = torch.where(own, 0.0, -alpha)
    assert bool((beta >= 0)[fine].all())
    assert bool((beta.sum(1) <= 1 + 1e-12)[fine].all())
    cap = beta.sum(1) / problem.loss.k
    assert bool((beta.amax(1) <= cap * (1 + 1e-9) + 1e-300)[fine].all())
    unknown = torch.isnan(z).any(1)
    assert bool(torch.isnan(alpha[unknown]).any(1).all())
    if bool(fine.all()):
        size = (problem.scales * (1 + z.abs().amax(1))).sum() * max(1.0, 1 / smoothing)
        assert bool(((numbers - sums).abs() <= 1e-12 * size).all())
    half = near.to(torch.float32) if near.dtype == torch.float64 else near
    for short in (torch.bfloat16, torch.float16, torch.float32):
        first, rest = array_points.in_two_parts(half, short)
        head = first.float()
        if short == torch.float32:
            assert bool(((head.view(torch.int32) & 8191) == 0).all())
        else:
            assert bool((first == half.to(short))[fine].all())
        assert bool((rest == (half - head).to(short))[fine].all())


@pytest.mark.parametrize("seed", range(8))
def test_fused_entropies_agree_with_the_array_code(seed, record_property):
    """Softmax and top-k entropy, 10^6 rows over the seeds; and numbers in two parts."""
    rng = np.random.default_rng([seed, 77])
    generator = torch.Generator(device="cuda").manual_seed(seed)
    rows = 0
    while rows < 130_000:
        m = int(rng.choice(WIDTHS))
        n = min(ROWS, ENTRIES // m)
        kind = str(rng.choice(KINDS))
        dtype = (torch.float32, torch.bfloat16, torch.float64)[rng.integers(3)]
        labels = torch.randint(m, (n,), device="cuda", generator=generator)
        margin = float(rng.choice([0.0, 1.0]))
        k = int(rng.integers(1, min(32, m - 1) + 1))
        loss = Softmax(margin) if rng.random() < 0.4 else TopKEntropy(k, margin)
        problem = _problem(loss, labels, m, dtype, generator)
        scores = _drawn_scores(kind, n, m, labels, dtype, generator)
        _check_entropies(problem, scores, float(10.0 ** rng.uniform(-2, 1)))
        rows += n
    record_property("rows", rows)
