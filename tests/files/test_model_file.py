"""Model files: the same predictions, nothing that runs, one clear line for each kind of damage."""

import io
import json
import pickle
import warnings
import zipfile

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import cornerstep
from cornerstep import ModelFileError, MulticlassSVC, SoftMarginBoostingClassifier, load, save
from cornerstep.learning.certificates import summary
from support.fitted_models import CLASSIFIERS, LABELS, STRUCTURED, TWO, X, classifier, structured
from support.structured_problems import Ranking

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.cornerstep"


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_saved_and_loaded_classifiers_predict_identically(name, path):
    model, data, _ = classifier(name)
    save(model, path)
    again = load(path)
    new = np.vstack([data + 0.01, data[::-1] * 1.5])
    assert np.array_equal(model.decision_function(new), again.decision_function(new))
    assert np.array_equal(model.predict(new), again.predict(new))
    assert again.classes_.dtype == model.classes_.dtype
    assert again.status_ == model.status_
    assert repr(again) == repr(model)
    assert cornerstep.certificate(again).to_dict() == cornerstep.certificate(model).to_dict()


@pytest.mark.parametrize("name", STRUCTURED)
def test_saved_and_loaded_structured_models_predict_identically(name, path):
    model, inputs, labelings = structured(name)
    save(model, path)
    again = load(path, model=Ranking() if name == "own" else None)
    for one, other in zip(model.predict(inputs), again.predict(inputs), strict=True):
        assert np.array_equal(one, other)
    assert again.score(inputs, labelings) == model.score(inputs, labelings)


def test_a_model_class_of_the_users_own_must_be_given(path):
    save(structured("own")[0], path)
    with pytest.raises(ModelFileError, match=r"load\(path, model=Ranking"):
        load(path)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_attribute_of_a_fit_is_known(name):
    """A new attribute must be added to the table, or be named here as one that is not kept."""
    model = classifier(name)[0]
    fitted = {key for key in vars(model) if key not in model.get_params(deep=False)}
    # what a warm start needs, where dual_coef_ is kept, and what machines_ say
    made = {"_state", "_dual_coef", "machines_", *summary(model.machines_)}
    assert fitted - set(model.model_schema().attributes) <= made


def test_traces_stages_and_refits_survive(path):
    model, data, labels = classifier("trees, three classes")
    save(model, path)
    again = load(path)
    for mine, other in zip(model.machines_, again.machines_, strict=True):
        assert other.trace.columns == mine.trace.columns
        assert np.array_equal(other.trace["gap"], mine.trace["gap"], equal_nan=True)
        assert other[:5] == mine[:5]
    pairs = zip(
        model.staged_decision_function(data), again.staged_decision_function(data), strict=True
    )
    assert all(np.array_equal(a, b) for a, b in pairs)
    assert np.array_equal(again.fit(data, labels).predict(data), model.predict(data))


def test_the_manifest_is_readable(path):
    save(classifier("linear")[0], path, notes={"data": "iris"})
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        arrays = [name for name in archive.namelist() if name.endswith(".npy")]
    assert manifest["format_version"] == 1
    assert manifest["library_version"] == cornerstep.__version__
    assert manifest["estimator"] == "MulticlassSVC"
    assert manifest["parameters"]["C"] == 1.0
    assert manifest["certificate"]["status"] == "solved"
    assert "No model has an objective more than" in manifest["certificate"]["statement"]
    assert manifest["notes"] == {"data": "iris"}
    assert "arrays/coef_.npy" in arrays
    assert len(arrays) == len(manifest["arrays"])


# -- what cannot be saved ------------------------------------------------------------------------


def test_code_is_refused_by_name(path):
    kernel = MulticlassSVC(kernel=lambda A, B: A @ B.T, random_state=0).fit(X, LABELS)
    with pytest.raises(ModelFileError, match="kernel holds the function"):
        save(kernel, path)
    forest = SoftMarginBoostingClassifier(
        nu=0.5, atol=0.5, weak_learner=RandomForestClassifier(2, random_state=0), max_iter=1
    ).fit(X[TWO], LABELS[TWO])
    with pytest.raises(ModelFileError, match="weak_learner holds an object of type Random"):
        save(forest, path)
    with pytest.raises(ModelFileError, match="estimator must be a CertifiedEstimator"):
        save(RandomForestClassifier(), path)
    with pytest.raises(ValueError, match="fitted"):
        save(MulticlassSVC(), path)
    assert not path.exists()


def test_a_random_state_object_is_left_out_and_said_so(path):
    save(MulticlassSVC(random_state=np.random.RandomState(0)).fit(X, LABELS), path)
    assert cornerstep.read_manifest(path)["parameters_left_out"] == ["random_state"]
    assert load(path).random_state is None


def test_nothing_is_left_behind_where_nothing_can_be_written(tmp_path):
    with pytest.raises(ModelFileError, match="cannot write"):
        save(classifier("linear")[0], tmp_path / "missing" / "model.cornerstep")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ModelFileError, match="cannot write"):
        save(classifier("linear")[0], tmp_path / "folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


# -- bad files -----------------------------------------------------------------------------------


def rewritten(path, change, resign=True):
    """The file with another manifest, its checksum put right if ``resign``."""
    import hashlib

    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(contents["manifest.json"])
    change(manifest, contents)
    contents["manifest.json"] = json.dumps(manifest).encode()
    if resign:
        contents["manifest.sha256"] = hashlib.sha256(contents["manifest.json"]).hexdigest().encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in contents.items():
            archive.writestr(name, data)


def test_every_truncation_is_an_error(path):
    save(classifier("linear")[0], path)
    whole = path.read_bytes()
    for size in [*range(0, len(whole), max(len(whole) // 60, 1)), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(ModelFileError):
            load(path)


def test_every_flipped_byte_is_an_error_or_changes_nothing(path):
    model, data, _ = classifier("linear")
    save(model, path)
    whole, expected = path.read_bytes(), model.decision_function(data + 0.01)
    rng = np.random.default_rng(0)
    caught = 0
    for at in rng.choice(len(whole), 150, replace=False):
        broken = bytearray(whole)
        broken[at] ^= 0xFF
        path.write_bytes(bytes(broken))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                again = load(path)
            except ModelFileError:
                caught += 1
                continue
        assert np.array_equal(again.decision_function(data + 0.01), expected)
    assert caught > 75  # the rest are dates and flags of the archive


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m, c: m.update(format_version=3, library_version="9.0"), "update cornerstep"),
        (lambda m, c: m.update(format="other"), "not a cornerstep model file"),
        (lambda m, c: m.update(estimator="os.system"), "which is not the library's"),
        (lambda m, c: m["attributes"].update(__class__="x"), "no attribute '__class__'"),
        (lambda m, c: m["attributes"].update(predict=1), "no attribute 'predict'"),
        (lambda m, c: m["parameters"].update(surprise=1), "no parameter 'surprise'"),
        (lambda m, c: m["parameters"].update(loss={"call": ["os", "x"]}), "no values of the kind"),
        (lambda m, c: m["parameters"].update(loss={"loss": ["__init__", {}]}), "no loss"),
        (lambda m, c: m["parameters"].update(loss={"model": ["object", {}]}), "kind 'model'"),
        (lambda m, c: m["attributes"].update(coef_={"array": "nothing"}), "nothing"),
        (lambda m, c: c.pop("arrays/coef_.npy"), "coef_ is not as listed"),
        (lambda m, c: c.update({"arrays/coef_.npy": c["arrays/intercept_.npy"]}), "not as listed"),
        (lambda m, c: m.pop("arrays"), "damaged"),
    ],
)  # fmt: skip
def test_a_forged_manifest_is_an_error(path, change, message):
    save(classifier("linear")[0], path)
    rewritten(path, change)
    with pytest.raises(ModelFileError, match=message):
        load(path)


def test_a_changed_manifest_is_noticed(path):
    save(classifier("linear")[0], path)
    rewritten(path, lambda m, c: m["certificate"].update(gap=0.0), resign=False)
    with pytest.raises(ModelFileError, match="checksum of its manifest"):
        load(path)


def test_pickles_never_run(path):
    """An object array in place of a plain one would need pickle to be read."""

    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("code of a model file ran",))

    save(classifier("linear")[0], path)
    path_pickle = path.with_suffix(".pkl")
    path_pickle.write_bytes(pickle.dumps({"not": "a model"}))
    with pytest.raises(ModelFileError, match="not a cornerstep model file"):
        load(path_pickle)

    def plant(manifest, contents):
        import hashlib

        buffer = io.BytesIO()
        np.save(buffer, np.array([Trap()], dtype=object), allow_pickle=True)
        contents["arrays/coef_.npy"] = buffer.getvalue()
        manifest["arrays"]["coef_"] = {
            "bytes": len(buffer.getvalue()),
            "sha256": hashlib.sha256(buffer.getvalue()).hexdigest(),
        }

    rewritten(path, plant)
    with pytest.raises(ModelFileError, match="damaged"):
        load(path)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(ModelFileError, match="cannot read"):
        load(tmp_path / "nothing.cornerstep")
    with pytest.raises(ModelFileError, match="cannot read"):
        load(tmp_path)
