"""Pipelines in model files, reports, verification and ONNX graphs."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures

import cornerstep
from cornerstep import ModelFileError, certificate, certify, load, save, table_pipeline
from support.tables import GAPS, LABELS, NAMES, NUMBERS, PIPELINES, TABLE, mixed, svm

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("name", PIPELINES)
def test_a_loaded_pipeline_is_the_saved_one(tmp_path, name):
    pipeline, X = PIPELINES[name]
    fitted = clone(pipeline).fit(X, LABELS)
    for again in range(2):
        save(fitted, tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert type(loaded) is Pipeline
        assert np.array_equal(loaded.decision_function(X), fitted.decision_function(X)), again
        fitted = loaded
    assert certificate(loaded).gap == certificate(loaded[-1]).gap
    assert certify(loaded, X, LABELS).holds
    assert not certify(loaded, X, LABELS[::-1].copy()).holds
    assert "<svg" in cornerstep.report(loaded, X, LABELS)
    clone(loaded).fit(X, LABELS)


def test_words_are_not_looked_for_in_numbers(tmp_path):
    numbers = np.arange(len(LABELS)).reshape(-1, 1) % 3.0
    steps = SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"), svm()
    fitted = make_pipeline(*steps).fit(numbers, LABELS)
    save(fitted, tmp_path / "model")
    fitted[1].categories_ = [np.array(["a", "b", "c"], dtype=object)]
    with pytest.raises(ModelFileError):  # would not predict
        save(fitted, tmp_path / "changed")


@pytest.mark.parametrize("name", ["linear", "trees", "words"])
def test_new_levels_and_gaps_are_answered_as_before(tmp_path, name):
    pipeline, X = PIPELINES[name]
    fitted = clone(pipeline)
    if name == "words":
        fitted.set_params(columntransformer__town__onehotencoder__handle_unknown="ignore")
    fitted.fit(X, LABELS)
    save(fitted, tmp_path / "model")
    other = mixed(seed=1)[0]
    other[::3, 4] = "never seen"
    other[::4, 1] = np.nan
    loaded = load(tmp_path / "model")
    assert np.array_equal(loaded.decision_function(other), fitted.decision_function(other))


def test_tables_with_names(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(TABLE, columns=NAMES).astype({"age": float, "fare": float, "count": float})
    fitted = table_pipeline(svm()).fit(frame, LABELS)
    save(fitted, tmp_path / "model")
    loaded = load(tmp_path / "model")
    turned = frame[NAMES[::-1]].assign(more=0)
    assert np.array_equal(loaded.decision_function(turned), fitted.decision_function(frame))
    assert list(loaded[:-1].get_feature_names_out()) == list(fitted[:-1].get_feature_names_out())
    page = cornerstep.report(loaded, frame, LABELS)
    assert "sex_f" in page
    assert "town_infrequent_sklearn" in loaded[:-1].get_feature_names_out()


def test_scaling_is_for_models_that_mind_units():
    for estimator, scaled in (
        (svm(), True), (cornerstep.ReducedHullSVC(), True),
        (cornerstep.SoftMarginBoostingClassifier(), False),
    ):  # fmt: skip
        numbers = table_pipeline(estimator, numbers=[0])[0].transformers[0][1]
        assert ("scale" in numbers.named_steps) == scaled
        numbers = table_pipeline(estimator, numbers=[0], scale=not scaled)[0].transformers[0][1]
        assert ("scale" in numbers.named_steps) != scaled


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (PolynomialFeatures(), "PolynomialFeatures, which a model file cannot hold"),
        (FunctionTransformer(np.sign), "FunctionTransformer, which a model file cannot hold"),
        (OneHotEncoder(dtype=np.float32), "dtype of OneHotEncoder must be float64"),
        (OneHotEncoder(drop=[0.0] * 3, handle_unknown="ignore"), "drop must be one of first"),
    ],
)
def test_what_cannot_be_kept_is_named(tmp_path, step, message):
    X = np.round(np.clip(NUMBERS, 0, 3))
    X[:3] = 0.0
    fitted = make_pipeline(step, svm()).fit(X, LABELS)
    with pytest.raises(ModelFileError, match=message):
        save(fitted, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_encoders_with_too_many_levels_say_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr("cornerstep.files.transformers._CELLS", 100)
    with pytest.raises(ModelFileError, match="put rare levels together with min_frequency"):
        save(make_pipeline(OneHotEncoder(), svm()).fit(NUMBERS, LABELS), tmp_path / "model")


GRAPHS = [
    "numbers", "standard", "no mean", "min max", "max abs", "l2", "l1", "max",
    "indicator", "nested",
]  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_pipelines_of_numbers_as_graphs(name):
    runtime = pytest.importorskip("onnxruntime")
    pipeline, X = PIPELINES[name]
    fitted = clone(pipeline).fit(X, LABELS)
    session = runtime.InferenceSession(cornerstep.to_onnx(fitted).SerializeToString())
    single = X.astype(np.float32)
    scores, labels = session.run(None, {"X": single})
    expected = fitted.decision_function(single.astype(np.float64))
    assert np.allclose(scores[:, 0], expected, rtol=1e-3, atol=1e-3)
    sure = np.abs(expected) > 1e-3
    assert np.array_equal(fitted.classes_[labels][sure], fitted.predict(single)[sure])


@pytest.mark.parametrize("unknown", ["ignore", "infrequent_if_exist"])
def test_levels_of_numbers_as_graphs(unknown):
    runtime = pytest.importorskip("onnxruntime")
    encoder = OneHotEncoder(max_categories=3, handle_unknown=unknown)
    fitted = make_pipeline(encoder, svm()).fit(GAPS[:, 2:], LABELS)
    session = runtime.InferenceSession(cornerstep.to_onnx(fitted).SerializeToString())
    X = np.arange(-1.0, 7.0, dtype=np.float32)[:, None]
    scores, _ = session.run(None, {"X": X})
    assert np.allclose(scores[:, 0], fitted.decision_function(X), atol=1e-5)


@pytest.mark.parametrize(
    ("pipeline", "X", "message"),
    [
        (*PIPELINES["linear"], "takes one matrix of numbers"),
        (*PIPELINES["levels"], "OneHotEncoder with drop"),
        (make_pipeline(PolynomialFeatures(), svm()), NUMBERS, "no nodes for PolynomialFeatures"),
    ],
    ids=["words", "drop", "polynomial"],
)
def test_what_a_graph_cannot_do_is_said(pipeline, X, message):
    pytest.importorskip("onnx")
    with pytest.raises(ValueError, match=message):
        cornerstep.to_onnx(clone(pipeline).fit(X, LABELS))
