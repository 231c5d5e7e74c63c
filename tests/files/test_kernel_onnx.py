"""ONNX graphs of kernel machines answer as the models do, in onnxruntime."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cornerstep import MulticlassSVC, OneClassHull, ReducedHullSVC, ReducedHullSVR, to_onnx

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

X, LABELS = load_iris(return_X_y=True)
X = X.astype(np.float32)
KERNELS = ("linear", "rbf", "poly", "sigmoid")


def answers(model, rows):
    """Scores, and the labels by name where there are any."""
    session = runtime.InferenceSession(
        to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    found = session.run(None, {"X": rows})
    if len(found) == 1:
        return found[0], None
    classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    return found[0], np.array(classes)[found[1]]


def near(rows):
    rng = np.random.default_rng(0)
    return np.vstack([rows, rows + 0.3 * rng.standard_normal(rows.shape)]).astype(np.float32)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("make", [ReducedHullSVC, MulticlassSVC])
@pytest.mark.filterwarnings("ignore:kernel='sigmoid'")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_classifiers(make, classes, kernel):
    if make is MulticlassSVC and kernel == "linear":
        pytest.skip("not a kernel machine")
    rows, y = X[classes > LABELS], np.array(["a", "b", "c"])[LABELS[classes > LABELS]]
    model = make(kernel=kernel, C=2.0, gamma=0.05).fit(rows, y)
    new = near(rows)
    scores, labels = answers(model, new)
    expected = model.decision_function(new.astype(np.float64))
    np.testing.assert_allclose(
        scores.reshape(expected.shape), expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max()
    )
    np.testing.assert_array_equal(labels, model.predict(new.astype(np.float64)))


def test_machines_of_landmarks():
    model = MulticlassSVC(kernel="rbf", kernel_rank=10).fit(X, LABELS)
    new = near(X)
    scores, labels = answers(model, new)
    expected = model.decision_function(new)
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_array_equal(labels, model.predict(new))


@pytest.mark.parametrize("given", [{"decision_function_shape": "ovo"}, {"break_ties": True}])
def test_pairs_and_ties(given):
    model = ReducedHullSVC(**given).fit(X, LABELS)
    new = near(X)
    scores, labels = answers(model, new)
    np.testing.assert_allclose(scores, model.decision_function(new), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(labels, model.predict(new))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.filterwarnings("ignore:kernel='sigmoid'")
def test_one_class_and_regression(kernel):
    new = near(X)
    hull = OneClassHull(nu=0.2, kernel=kernel, gamma=0.05).fit(X)
    scores, labels = answers(hull, new)
    expected = hull.decision_function(new)
    np.testing.assert_allclose(scores.ravel(), expected, rtol=1e-6, atol=1e-6 * np.ptp(expected))
    sure = np.abs(expected) > 1e-9 * np.ptp(expected)  # rounding decides the others
    np.testing.assert_array_equal(labels[sure], hull.predict(new)[sure])
    tube = ReducedHullSVR(kernel=kernel, gamma=0.05).fit(X[:, :3], X[:, 3])
    predicted, labels = answers(tube, new[:, :3])
    assert labels is None
    expected = tube.predict(new[:, :3])
    np.testing.assert_allclose(predicted.ravel(), expected, rtol=1e-6, atol=1e-6)


def test_far_from_the_origin_and_sparse():
    far = (X + np.float32(4096)).astype(np.float32)
    model = ReducedHullSVC(gamma=0.5).fit(far, LABELS)
    scores, _ = answers(model, far)
    np.testing.assert_allclose(scores, model.decision_function(far), rtol=1e-6, atol=1e-6)
    sparse = ReducedHullSVC(gamma=0.5).fit(sp.csr_matrix(X), LABELS)
    np.testing.assert_array_equal(answers(sparse, X)[1], sparse.predict(sp.csr_matrix(X)))


def test_in_a_pipeline():
    model = make_pipeline(StandardScaler(), ReducedHullSVC()).fit(X, LABELS)
    scores, labels = answers(model, X)
    np.testing.assert_allclose(scores, model.decision_function(X), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(labels, model.predict(X))


def test_what_no_graph_can_compute_is_refused():
    model = ReducedHullSVC(kernel="precomputed").fit(X @ X.T, LABELS)
    with pytest.raises(ValueError, match="not precomputed, not a function"):
        to_onnx(model)
    with pytest.raises(ValueError, match="must be fitted"):
        to_onnx(ReducedHullSVC())
    with pytest.raises(ValueError, match="must be fitted"):
        to_onnx(OneClassHull(kernel=lambda a, b: a @ b.T).fit(X))
