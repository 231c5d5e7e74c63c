"""Arrays of other libraries: the same objectives, certificates and predictions as with NumPy."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from cornerstep import (
    MulticlassSVC,
    certify,
    load,
    regularization_path,
    report,
    save,
    to_onnx,
)
from cornerstep.data.arrays import is_other_library, to_numpy
from cornerstep.losses import Loss, TopK, Usunier, WeightedTopK, WeightedUsunier
from cornerstep.multiclass.arrays.losses import ArrayLoss
from support.multiclass_problems import LOSS_KINDS, draw, optimum

RULES = ("envelope", "fw-corrective", "fw", "fw-open-loop", "projected-gradient")


def _torch():
    return pytest.importorskip("torch", reason="torch is not installed")


def _strict(X):
    import array_api_strict

    return array_api_strict.asarray(X)


def _tensor(X, device="cpu"):
    return _torch().tensor(X, device=device)


def _device():
    torch = _torch()
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    return "cuda"


KINDS = {"strict": _strict, "torch": _tensor, "cuda": lambda X: _tensor(X, _device())}
every_kind = pytest.mark.parametrize("kind", KINDS)


def _fit(problem, make, dtype=None, **parameters):
    X, y, weight = make(problem.X), make(problem.y), make(problem.weight)
    if dtype is not None:
        X = X.to(getattr(_torch(), dtype))
    return problem.estimator(**parameters).fit(X, y, sample_weight=weight)


@pytest.mark.filterwarnings("ignore:MulticlassSVC stopped")
@every_kind
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
@pytest.mark.parametrize("loss", LOSS_KINDS)
def test_same_iterates_as_numpy(kind, loss, smoothing):
    problem = draw(loss, smoothing)
    for solver in RULES if kind != "strict" else RULES[:2]:
        steps = {"solver": solver, "tol": 0.0, "max_iter": 3 if smoothing else 12}
        expected, model = problem.fit(**steps), _fit(problem, KINDS[kind], **steps)
        assert model.objective_ == pytest.approx(expected.objective_, rel=1e-9)
        assert model.bound_ == pytest.approx(expected.bound_, rel=1e-9, abs=1e-9)
        np.testing.assert_allclose(to_numpy(model.coef_), expected.coef_, atol=1e-9)
        np.testing.assert_allclose(model.trace_["value"], expected.trace_["value"], rtol=1e-9)
        if expected.dual_coef_ is None:
            assert model.dual_coef_ is None
            continue
        dual = sp.csr_array(to_numpy(model.dual_coef_))
        np.testing.assert_allclose(dual.toarray(), expected.dual_coef_.toarray(), atol=1e-9)
        if not (solver == "envelope" and smoothing):  # there it proves a little more
            assert problem.dual(dual) == pytest.approx(model.bound_, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("kind", ["torch", "cuda"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("loss", LOSS_KINDS)
def test_rounded_data_prove_true_bounds(kind, dtype, loss):
    """The optimum of the data as given lies between the two objectives, and P is of ``coef_``."""
    problem = draw(loss)
    torch = _torch()
    rounded = torch.tensor(problem.X).to(getattr(torch, dtype)).double().numpy()
    model = _fit(problem, KINDS[kind], dtype, solver="envelope", tol=5e-3, max_iter=3000)
    assert model.status_.value == "solved"
    given = type(problem)(**{**vars(problem), "X": rounded})
    exact = given.fit(solver="block", tol=1e-7)
    assert model.bound_ <= exact.objective_ * (1 + 1e-8)
    assert model.objective_ >= exact.bound_ * (1 - 1e-8)
    weights = to_numpy(model.coef_)
    assert model.objective_ == pytest.approx(given.primal(weights), rel=1e-9)


@every_kind
@pytest.mark.parametrize("solver", ["auto", "envelope"])
def test_optimum(kind, solver):
    problem, least = draw("weighted-top-k"), optimum("weighted-top-k")
    model = _fit(problem, KINDS[kind], solver=solver, tol=1e-3, max_iter=500)
    assert model.status_.value == "solved"
    assert model.bound_ <= least * (1 + 1e-9) <= model.objective_ * (1 + 2e-9)


@every_kind
@pytest.mark.parametrize("solver", ["auto", "fw-corrective"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_attributes_and_predictions_are_of_the_same_kind(kind, n_classes, solver):
    X, y = load_digits(n_class=n_classes, return_X_y=True)
    X = X / 16.0
    make = KINDS[kind]
    model = MulticlassSVC(tol=0.05, solver=solver, random_state=0).fit(make(X), make(y))
    alike = "block" if kind == "torch" and solver == "auto" else "envelope"
    alike = alike if solver == "auto" else solver
    plain = MulticlassSVC(tol=0.05, solver=alike, random_state=0).fit(X, y)
    for name in ("coef_", "intercept_", "classes_"):
        value = getattr(model, name)
        assert type(value) is type(make(X))
        np.testing.assert_allclose(to_numpy(value), getattr(plain, name), atol=1e-8)
    for name in ("predict", "decision_function", "predict_top_k"):
        arguments = (2,) if name == "predict_top_k" else ()
        value = getattr(model, name)(make(X), *arguments)
        assert is_other_library(value)
        assert value.device == make(X).device
        np.testing.assert_allclose(to_numpy(value), getattr(plain, name)(X, *arguments), atol=1e-6)
    assert model.score(make(X), make(y)) == plain.score(X, y)
    assert model.top_k_score(make(X), make(y), 2) == plain.top_k_score(X, y, 2)


@pytest.mark.parametrize("kind", ["torch", "cuda"])
def test_labels_of_numpy_and_examples_without_weight(kind):
    X, y = load_digits(n_class=3, return_X_y=True)
    weight = np.where(np.arange(y.size) % 3 == 0, 0.0, 1.0)
    names = np.array(["none", "one", "two"])[y]
    model = MulticlassSVC(tol=0.05, smoothing=1.0, solver="fw", max_iter=5)
    with pytest.warns(match="stopped at"):
        model.fit(KINDS[kind](X / 16.0), names, sample_weight=weight)
    assert model.dual_coef_.shape == (y.size, 3)
    assert not to_numpy(model.dual_coef_)[weight == 0].any()
    assert set(model.predict(KINDS[kind](X / 16.0))) <= set(names)


@every_kind
@pytest.mark.parametrize(("solver", "smoothing"), [("auto", 0.0), ("envelope", 0.0), ("fw", 0.5)])
def test_model_files_and_certificates(kind, solver, smoothing, tmp_path):
    """A file of a model of tensors loads as one of NumPy arrays, and proves as much."""
    X, y = load_digits(n_class=4, return_X_y=True)
    X, y, make = X[:150] / 16.0, y[:150], KINDS[kind]
    options = {"C": 0.1, "tol": 0.2, "solver": solver, "smoothing": smoothing}
    model = MulticlassSVC("top-k", k=2, **options).fit(make(X), make(y))
    save(model, tmp_path / "model.cornerstep")
    loaded = load(tmp_path / "model.cornerstep")
    assert isinstance(loaded.coef_, np.ndarray)
    np.testing.assert_array_equal(loaded.coef_, to_numpy(model.coef_))
    np.testing.assert_array_equal(loaded.predict(X), to_numpy(model.predict(make(X))))
    assert loaded.relative_gap_ == model.relative_gap_
    for fitted, data in ((model, (make(X), make(y))), (loaded, (X, y))):
        proof = certify(fitted, *data)
        assert proof.holds, proof.problems
        assert proof.how == "the dual coefficients of the model"
        assert proof.values[0] == pytest.approx(model.objective_, rel=1e-9)
    answers = loaded.predict(make(X))
    assert type(answers) is type(make(X))
    np.testing.assert_array_equal(to_numpy(answers), model.predict(X))


CPU_TENSORS = ["float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("dtype", CPU_TENSORS)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_tensors_on_the_cpu_train_as_numpy_arrays(dtype, kernel):
    """The same steps to the same machine, whatever holds the numbers; weights of 0 too."""
    torch = _torch()
    X, y = load_digits(n_class=4, return_X_y=True)
    T = torch.tensor(X[:200] / 16.0).to(getattr(torch, dtype))
    weight = torch.arange(200.0) % 3
    how = {"C": 10.0, "kernel": kernel, "warm_start": True, "random_state": 0}
    model = MulticlassSVC(**how).fit(T, torch.tensor(y[:200]), sample_weight=weight)
    given = to_numpy(T), y[:200], to_numpy(weight)
    T.requires_grad_()  # of predictions nobody expects gradients
    plain = MulticlassSVC(**how).fit(*given)
    assert model.objective_ == plain.objective_
    assert (model.n_iter_, model.status_) == (plain.n_iter_, plain.status_)
    assert type(model.classes_) is type(model.dual_coef_) is torch.Tensor
    np.testing.assert_array_equal(to_numpy(model.dual_coef_).toarray(), plain.dual_coef_.toarray())
    np.testing.assert_array_equal(
        to_numpy(model.decision_function(T)), plain.decision_function(given[0])
    )
    for fitted in (model, plain):
        assert type(fitted.predict(T)) is torch.Tensor
        assert type(fitted.predict(given[0])) is np.ndarray
        assert certify(fitted, T, given[1], weight).holds


@every_kind
def test_models_of_tensors_are_reported_exported_and_traced(kind):
    X, y = load_digits(n_class=3, return_X_y=True)
    X, make = X / 16.0, KINDS[kind]
    model = MulticlassSVC(C=0.1, tol=0.05).fit(make(X), make(y))
    assert report(model, make(X), make(y)) == report(model, X, y)
    path = regularization_path(MulticlassSVC(tol=0.05), make(X), make(y), [0.01, 0.1])
    assert type(path.estimators[-1].coef_) is type(make(X))
    figures = pytest.importorskip("matplotlib.figure")
    ax = figures.Figure().add_subplot()
    for data in ((X, y), (make(X), make(y))):
        model.plot_margins(*data, ax=ax)
    first, second = (line.get_xdata() for line in ax.lines[::2])
    np.testing.assert_allclose(first, second, atol=1e-6)
    onnx = pytest.importorskip("onnx")
    exported = to_onnx(model).graph.initializer[0]
    np.testing.assert_allclose(
        onnx.numpy_helper.to_array(exported), to_numpy(model.coef_), rtol=1e-6
    )


@pytest.mark.parametrize("batches", ["dataset", "loader", "generator", "list"])
def test_examples_in_batches_are_refused_with_advice(batches):
    data = pytest.importorskip("torch.utils.data")
    X, y = _tensor(np.eye(4)), np.arange(4)
    given = {
        "dataset": data.TensorDataset(X),
        "loader": data.DataLoader(data.TensorDataset(X)),
        "generator": (row for row in X),
        "list": [X[:2], X[2:]],
    }[batches]
    fitted = MulticlassSVC(tol=0.1).fit(X, y)
    for ask in (lambda: MulticlassSVC().fit(given, y), lambda: fitted.predict(given)):
        with pytest.raises(TypeError, match=r"^X must be one matrix .* join its batches"):
            ask()


@pytest.mark.parametrize("family", [WeightedTopK, WeightedUsunier])
@pytest.mark.parametrize("library", ["array_api_compat.numpy", "array_api_strict"])
def test_losses_and_projections_as_array_code(family, library):
    from importlib import import_module

    xp = import_module(library)
    rng = np.random.default_rng(0)
    for _ in range(6):
        m = int(rng.integers(2, 90))
        rho = np.sort(rng.random(int(rng.integers(1, min(m, 7)))))[::-1]
        loss, labels = family(rho), rng.integers(0, m, 5)
        scores = rng.standard_normal((5, m)) * rng.choice([0.1, 1.0, 10.0])
        ours = ArrayLoss(loss, xp, xp.asarray(scores), m)
        arrays = xp.asarray(scores), xp.asarray(labels, dtype=xp.int64)
        deltas = ours.deltas(slice(0, 5), arrays[1], xp.float64)
        values, _, points = ours.corners(*arrays, deltas)
        np.testing.assert_allclose(np.asarray(values), loss.value(scores, labels), atol=1e-12)
        np.testing.assert_allclose(np.asarray(points), -loss.subgradient(scores, labels))
        for smoothing in (1e-3, 0.1, 10.0):
            values, alpha = ours.envelopes(*arrays, deltas, smoothing)
            expected = loss.envelope(scores, labels, smoothing)
            np.testing.assert_allclose(np.asarray(values), expected, atol=1e-9, rtol=1e-9)
            assert np.isfinite(loss.conjugate(-np.asarray(alpha), labels)).all()
            expected = loss.dual_point(scores, labels, smoothing)
            np.testing.assert_allclose(np.asarray(alpha), expected, atol=1e-7)


def _drawn(seed, equal=True):
    """A loss with equal weights or falling ones, scores (some with ties), labels, a smoothing."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(3, 90))
    loss: Loss = (TopK, Usunier)[seed % 2](int(rng.integers(1, min(m, 8))))
    if not equal:
        rho = np.sort(rng.random(int(rng.integers(2, min(m, 12)))))[::-1]
        rho = np.ceil(4 * rho) / 4 if seed % 5 < 2 else rho
        loss = (WeightedTopK, WeightedUsunier)[seed % 2](rho)
    scores = rng.standard_normal((8, m)) * rng.choice([0.01, 0.1, 1.0, 10.0, 1e3])
    if seed % 3 == 0:
        scores = np.round(2 * scores) / 2
    return loss, scores, rng.integers(0, m, 8), float(rng.choice([1e-3, 0.05, 1.0, 10.0]))


@pytest.mark.parametrize("seed", range(40))
def test_projections_for_equal_weights(seed):
    import array_api_compat.numpy as xp

    loss, scores, labels, smoothing = _drawn(seed)
    ours = ArrayLoss(loss, xp, scores, scores.shape[1])
    alpha = ours.project(-scores / smoothing, labels)
    np.testing.assert_allclose(alpha, loss.project(-scores / smoothing, labels), atol=1e-10)
    assert np.isfinite(loss.conjugate(-alpha, labels, 1e-12)).all()


def _for_kernels():
    """A GPU, or with ``TRITON_INTERPRET=1`` in the environment Triton's interpreter on the CPU."""
    pytest.importorskip("triton")
    return "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else _device()


def _fused(loss, n, m, device):
    from cornerstep.multiclass.arrays import vertices as array_points
    from cornerstep.multiclass.arrays.rows import ArrayExamples, ArrayProblem

    torch = _torch()
    scales = torch.linspace(0.5, 1.5, n, dtype=torch.float64, device=device)
    examples = ArrayExamples(torch.zeros((n, 2), dtype=torch.float64, device=device))
    labels = torch.arange(n, device=device) % m
    return array_points, ArrayProblem(examples, labels, m, loss, scales)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the interpreter: infinities
@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("seed", range(16))
def test_fused_vertices_on_cuda(seed, equal):
    torch, device = _torch(), _for_kernels()
    loss, scores, _, _ = _drawn(seed, equal)
    n, m = scores.shape
    points, problem = _fused(loss, n, m, device)
    labels, s = problem.labels.cpu().numpy(), problem.scales.cpu().numpy()
    rng = np.random.default_rng(seed)
    scores = scores + 1e-6 * rng.random(scores.shape)  # no ties
    products = torch.tensor(rng.standard_normal((n, 4)), device=device)
    probed = torch.zeros((m, 4), dtype=torch.float64, device=device)
    block, given = slice(0, n), torch.tensor(scores, device=device)
    values, linear, found, probed = points.corners_on_gpu(problem)(block, given, products, probed)
    alpha = (found * problem.unit / problem.scales[:, None]).cpu().numpy()
    np.testing.assert_allclose(values.cpu().numpy(), s * loss.value(scores, labels), atol=1e-10)
    np.testing.assert_allclose(alpha, -loss.subgradient(scores, labels), atol=1e-6)
    costs = -(alpha * loss.deltas(labels, m)).sum(1)
    np.testing.assert_allclose(linear.cpu().numpy(), s * costs, atol=1e-6)
    expected = (s[:, None] * alpha).T @ products.cpu().numpy()
    np.testing.assert_allclose(probed.cpu().numpy(), expected, atol=1e-5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("seed", range(16))
def test_fused_projections_on_cuda(seed, equal):
    """Dual points, and the four sums over them."""
    torch, device = _torch(), _for_kernels()
    loss, scores, _, smoothing = _drawn(seed, equal)
    n, m = scores.shape
    module, problem = _fused(loss, n, m, device)
    labels, scales = problem.labels.cpu().numpy(), problem.scales
    find = module.nearest_on_gpu(problem)
    numbers, points, _ = find(slice(0, n), torch.tensor(scores, device=device), smoothing)
    alpha = (points * problem.largest / scales[:, None]).cpu().numpy()
    expected, s = loss.dual_point(scores, labels, smoothing), scales.cpu().numpy()
    np.testing.assert_allclose(alpha, expected, atol=1e-10)
    assert np.isfinite(loss.conjugate(-alpha, labels, 1e-12)).all()
    deltas = loss.deltas(labels, m)
    z = scores - scores[np.arange(n), labels][:, None] + deltas
    sums = [-(expected * deltas).sum(1), -(expected * z).sum(1), (expected**2).sum(1)]
    wanted = [s @ part for part in (loss.value(scores, labels), *sums)]
    np.testing.assert_allclose(numbers.cpu().numpy(), wanted, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "rbf"}, "kernel must be 'linear' for arrays of array_api_strict"),
        ({"solver": "block"}, "solver must be one of auto, envelope"),
    ],
)
def test_what_such_arrays_cannot_do(parameters, message):
    X, y = _strict(np.eye(4)), _strict(np.array([0, 1, 2, 0]))
    with pytest.raises(ValueError, match=message):
        MulticlassSVC(**parameters).fit(X, y)


def test_wrong_arrays():
    y = _strict(np.array([0, 1, 2, 0]))
    X = np.eye(4)
    with pytest.raises(ValueError, match="X must be a matrix"):
        MulticlassSVC().fit(_strict(X[0]), y)
    with pytest.raises(ValueError, match="X must be finite"):
        MulticlassSVC().fit(_strict(X * np.nan), y)
    with pytest.raises(ValueError, match="y must have one label for each of the 4 rows"):
        MulticlassSVC().fit(_strict(X), y[:2])
    with pytest.raises(ValueError, match="at least two classes"):
        MulticlassSVC().fit(_strict(X), y * 0)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        MulticlassSVC().fit(_strict(X), _strict(np.array([0.1, 0.2, 0.3, 0.4])))
    model = MulticlassSVC(tol=0.1).fit(_strict(X), y)
    np.testing.assert_array_equal(model.predict(X), to_numpy(model.predict(_strict(X))))
    with pytest.raises(ValueError, match="expecting 4 features"):
        model.predict(_strict(X[:, :2]))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("name", ["X", "sample_weight"])
def test_gradients_that_would_never_come_are_refused(name, kernel):
    torch = _torch()
    given = {"X": torch.randn(30, 3), "sample_weight": torch.ones(30)}
    given[name].requires_grad_()
    with pytest.raises(ValueError, match=f"{name} must be without gradients.*{name}.detach"):
        MulticlassSVC("softmax" if kernel == "linear" else "max-hinge", kernel=kernel).fit(
            y=torch.arange(30) % 3, **given
        )


def test_sparse_tensors_are_refused():
    torch = pytest.importorskip("torch")
    y = torch.tensor([0, 1, 2, 0])
    with pytest.raises(ValueError, match="X must be a dense tensor, got one of layout"):
        MulticlassSVC().fit(torch.eye(4).to_sparse(), y)
    model = MulticlassSVC(tol=0.1).fit(torch.eye(4), y)
    with pytest.raises(ValueError, match="X must be a dense tensor"):
        model.predict(torch.eye(4).to_sparse())


def test_without_the_extra_the_copy_of_scikit_learn_serves():
    """Neither torch nor array-api-compat: NumPy data train, and other arrays too."""
    pytest.importorskip("sklearn.externals.array_api_compat")
    program = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "array_api_compat", "triton"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
import array_api_strict, numpy as np
from cornerstep import MulticlassSVC
X, y = np.eye(3), np.arange(3)
assert MulticlassSVC(tol=0.1).fit(X, y).score(X, y) == 1.0
strict = array_api_strict.asarray(X)
assert MulticlassSVC(tol=0.1).fit(strict, y).score(strict, y) == 1.0
"""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
