"""ONNX graphs answer as the models do, in onnxruntime."""

import json

import numpy as np
import pytest

from cornerstep import MulticlassSVC, to_onnx
from support.fitted_models import classifier

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("name", ["linear", "linear, two classes", "trees", "trees, three classes"])
def test_scores_and_labels_agree(name, tmp_path):
    model, data, _ = classifier(name)
    to_onnx(model, tmp_path / "model.onnx")
    session = runtime.InferenceSession(
        str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    rng = np.random.default_rng(0)
    new = np.vstack([data, data + 0.3 * rng.standard_normal(data.shape)]).astype(np.float32)
    scores, labels = session.run(None, {"X": new})
    expected = model.decision_function(new.astype(np.float64))
    assert scores.reshape(expected.shape) == pytest.approx(expected, abs=2e-5)
    classes = np.array(json.loads(session.get_modelmeta().custom_metadata_map["classes"]))
    predicted = model.predict(new.astype(np.float64))
    two = expected.ndim == 1
    close = (
        np.abs(expected) if two else -np.diff(-np.sort(-expected, axis=1)[:, :2], axis=1).ravel()
    )
    sure = close > 1e-4
    assert np.array_equal(classes[labels][sure], predicted[sure])
    assert sure.mean() > 0.9


def test_other_models_are_refused():
    with pytest.raises(ValueError, match="must be fitted"):
        to_onnx(MulticlassSVC())
