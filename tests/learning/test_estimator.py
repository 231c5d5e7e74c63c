"""The protocol: subclasses, and an estimator of somebody else's, are citizens of the library."""

from __future__ import annotations

import copy
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.utils.validation import check_is_fitted, validate_data

from cornerstep import (
    ModelFileError,
    MulticlassSVC,
    ReducedHullSVC,
    SoftMarginBoostingClassifier,
    Status,
    StructuredSVC,
    certificate,
    certify,
    load,
    report,
    save,
    to_onnx,
)
from cornerstep.learning.certificates import MachineProof
from cornerstep.learning.claims import Recomputed
from cornerstep.learning.estimator import CertifiedEstimator, Weights
from cornerstep.learning.specs import (
    DOUBLE,
    Array,
    Count,
    Each,
    Integer,
    Kind,
    Labels,
    Number,
    Proof,
    Record,
    Schema,
)
from cornerstep.learning.verification import examples_of
from cornerstep.optimiser import Trace
from cornerstep.structured import ChainModel
from support.structured_problems import chains

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["a", "b", "c"])[Y]


class MyMulticlass(MulticlassSVC):
    """A subclass, of the same parameters."""


class MyHull(ReducedHullSVC):
    """A subclass, of the same parameters."""


class MyBoosting(SoftMarginBoostingClassifier):
    """A subclass, of the same parameters."""


class MyStructured(StructuredSVC):
    """A subclass, of the same parameters."""


class Centres(ClassifierMixin, CertifiedEstimator):
    """``min over c of 1/2 sum_i |x_i - c_{y_i}|²``, solved by means: an estimator from outside."""

    def __init__(self, tol=1e-9, atol=0.0, class_weight=None):
        self.tol, self.atol, self.class_weight = tol, atol, class_weight

    def fit(self, X, y, sample_weight=None):
        X, y = validate_data(self, X, y, dtype=np.float64)
        self.classes_, labels = np.unique(y, return_inverse=True)
        self.centres_ = np.array([X[labels == k].mean(axis=0) for k in range(self.classes_.size)])
        trace = Trace()
        trace.append((0, 0.0, self._value(X, labels), 0.0, 1.0, "mean"))
        value = self._value(X, labels)
        self.record([MachineProof(value, value, 0.0, Status.SOLVED, 1, trace)])
        self.per_class_ = Fraction(len(X), self.classes_.size)
        return self

    def _value(self, X, labels):
        return 0.5 * float(((X - self.centres_[labels]) ** 2).sum())

    def decision_function(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return 2 * X @ self.centres_.T - (self.centres_**2).sum(axis=1)

    def predict(self, X):
        return self.classes_[self.decision_function(X).argmax(axis=1)]

    def recompute(self, X, y, sample_weight, claimed, problems):
        X, labels, _ = examples_of(self, X, y, sample_weight, problems)
        value = np.array([self._value(X, labels)])
        best = [0.5 * X[labels == k].var(axis=0).sum() * (labels == k).sum() for k in range(3)]
        return Recomputed(value, np.array([sum(best)]), 1e-12 * value, "the means")

    @classmethod
    def model_schema(cls):
        return Schema(
            {"tol": Number(0), "atol": Number(0)},
            {
                "n_features_in_": Count("d"), "classes_": Labels(),
                "centres_": Array(DOUBLE, "m", "d"), "machines_": Each(Proof(), length=1),
                "per_class_": Record({"numerator": Integer(), "denominator": Integer(1)}),
            },
            kinds=(
                Kind(
                    "fraction", lambda value: isinstance(value, Fraction),
                    lambda value, encode, name: [value.numerator, value.denominator],
                    lambda parts, decode: Fraction(*map(decode, parts)),
                ),
            ),
        )  # fmt: skip

    def model_size(self):
        return "centres", len(self.centres_)

    def strongest(self):
        return Weights(self.centres_, self.classes_)

    def onnx_parts(self):
        from onnx import helper, numpy_helper

        weights = [
            numpy_helper.from_array((2 * self.centres_).astype(np.float32), "W"),
            numpy_helper.from_array(-(self.centres_**2).sum(axis=1).astype(np.float32), "b"),
        ]
        return [helper.make_node("Gemm", ["X", "W", "b"], ["scores"], transB=1)], weights


MODELS = {
    "multiclass": (MyMulticlass(random_state=0), X, NAMES),
    "kernel": (MyHull(nu=0.3, random_state=0), X, NAMES),
    "boosting": (MyBoosting(nu=0.3, atol=0.1), X, NAMES),
    "structured": (MyStructured(ChainModel(), random_state=0), *chains()),
    "centres": (Centres(), X, NAMES),
}


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    model, data, labels = MODELS[request.param]
    return copy.deepcopy(model).fit(data, labels), data, labels


def test_it_is_certified(fitted):
    model, data, labels = fitted
    proof = certificate(model)
    assert len(proof.names) == len(model.machines_) == proof.values.size
    assert certify(model, data, labels).holds
    liar = copy.copy(model)
    liar.record([machine._replace(bound=machine.bound + 1) for machine in model.machines_])
    assert not certify(liar, data, labels).holds


def test_it_is_saved_and_loaded(fitted, tmp_path):
    model, data, _ = fitted
    path = tmp_path / "model.cornerstep"
    save(model, path)
    with pytest.raises(ModelFileError, match=r"load\(path, estimator=\.\.\.\)"):
        load(path)
    with pytest.raises(ModelFileError, match="estimator is the class MulticlassSVC"):
        load(path, estimator=MulticlassSVC)
    with pytest.raises(ModelFileError, match="estimator must be a class of certified estimators"):
        load(path, estimator=dict)
    again = load(path, estimator=type(model))
    assert type(again) is type(model)
    assert again.gap_ == model.gap_
    assert getattr(again, "per_class_", None) == getattr(model, "per_class_", None)  # a Kind
    pairs = zip(again.predict(data), model.predict(data), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)


def test_it_is_reported(fitted, tmp_path):
    model, data, labels = fitted
    report(model, data, labels, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert type(model).__name__ in page
    assert certificate(model).sentence in page
    assert model.model_size()[0] in page


def test_it_is_exported_or_refused(fitted):
    pytest.importorskip("onnx")
    model, data, _ = fitted
    if isinstance(model, StructuredSVC):
        with pytest.raises(ValueError, match="estimator must be fitted, and be linear"):
            to_onnx(model)
        return
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(to_onnx(model).SerializeToString())
    (label,) = session.run(["label"], {"X": data.astype(np.float32)})
    assert np.mean(model.classes_[label] == model.predict(data)) == 1.0
