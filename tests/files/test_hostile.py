"""Model files made on purpose, their checksums right: refused, or used without a crash."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import cornerstep
from cornerstep import ModelFileError, MulticlassSVC, certificate, load, save
from cornerstep.files import model_file
from cornerstep.learning.pipelines import last_step
from support.fitted_models import CLASSIFIERS, LABELS, X, classifier, structured
from support.tables import LABELS as ANSWERS
from support.tables import PIPELINES

pytestmark = pytest.mark.filterwarnings("ignore")
CHAINS = ("chain",)


TABLES = {f"table, {name}": name for name in ("linear", "trees", "levels", "words", "min max")}


@cache
def table(name):
    pipeline, data = PIPELINES[name]
    return clone(pipeline).fit(data, ANSWERS), data


def model_of(name):
    if name in TABLES:
        return table(TABLES[name])
    return structured(name) if name in CHAINS else classifier(name)


@cache
def contents(name):
    """The entries of the file of a model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.cornerstep"
        save(model_of(name)[0], path)
        with zipfile.ZipFile(path) as archive:
            return {entry: archive.read(entry) for entry in archive.namelist()}


def npy(array):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array).reshape(np.shape(array)))
    return buffer.getvalue()


class File:
    """A model file to be changed, and written with checksums that are right."""

    def __init__(self, name):
        self.entries = dict(contents(name))
        self.manifest = json.loads(self.entries["manifest.json"])

    def array(self, key):
        return np.load(io.BytesIO(self.entries[f"arrays/{key}.npy"]))

    def put(self, key, data):
        data = data if isinstance(data, bytes) else npy(data)
        self.entries[f"arrays/{key}.npy"] = data
        digest = hashlib.sha256(data).hexdigest()
        self.manifest["arrays"][key] = {"bytes": len(data), "sha256": digest}

    def write(self, path, text=None):
        text = json.dumps(self.manifest).encode() if text is None else text
        digest = hashlib.sha256(text).hexdigest().encode()
        entries = {**self.entries, "manifest.json": text, "manifest.sha256": digest}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in entries.items():
                archive.writestr(name, data)
        return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.cornerstep"


@pytest.mark.parametrize(
    ("name", "key", "change"),
    [
        ("trees", "_machines.0.pool.1", lambda a: a * 0 + 10**9),
        ("trees", "_machines.0.pool.1", lambda a: a * 0 - 10**9),
        ("trees", "_machines.0.pool.1", lambda a: a * 0 + 2**40),
        ("trees", "_machines.0.pool.1", lambda a: a * 0 + 4),  # n_features_in_
        ("trees", "_machines.0.pool.1", lambda a: a.astype(float)),
        ("trees", "_machines.0.pool.1", lambda a: a.astype(np.int32)),
        ("trees", "_machines.0.pool.0", lambda a: a * 0 - 5),
        ("trees", "_machines.0.pool.0", lambda a: a + 1),
        ("trees", "_machines.0.pool.3", lambda a: a[:0]),
        ("trees", "_machines.0.pool.3", lambda a: a * np.nan),
        ("trees", "_machines.0.hypotheses", lambda a: a - 1),
        ("trees", "_machines.0.hypotheses", lambda a: a + 10**6),
        ("trees", "_machines.0.stage_members", lambda a: a - 1),
        ("trees", "_machines.0.stage_sizes", lambda a: a * 0),
        ("trees", "_machines.0.weights", lambda a: a[:-1]),
        ("trees", "estimators_.1", lambda a: a * 0 + 10**9),
        ("linear", "coef_", lambda a: a[:1]),
        ("linear", "coef_", lambda a: a.ravel()),
        ("linear", "coef_", lambda a: a.astype(str)),
        ("linear", "coef_", lambda a: a * np.inf),
        ("linear", "coef_", lambda a: a[:, :-1]),
        ("linear", "intercept_", lambda a: a[:1]),
        ("linear", "classes_", lambda a: a[:2]),
        ("linear", "classes_", lambda a: a[[0, 0, 1]]),
        ("linear", "dual_coef_.indices", lambda a: a + 3),
        ("linear", "dual_coef_.indptr", lambda a: a[::-1].copy()),
        ("linear", "machines_.0.5.seconds", lambda a: a[:, None]),
        ("joint rbf", "support_", lambda a: a + 10**6),
        ("joint rbf", "support_", lambda a: a - 10**6),
        ("joint rbf", "_support_rows", lambda a: a[:, :2]),
        ("joint rbf", "_machine.data", lambda a: a * np.nan),
        ("hull", "dual_coef_", lambda a: a[:, :-1]),
        ("hull", "n_support_", lambda a: a + 1),
        ("hull", "support_vectors_", lambda a: a[:-1]),
        ("hull, C, three classes", "intercept_", lambda a: a[:2]),
        ("chain", "coef_", lambda a: a[:-1]),
        ("chain", "coef_", lambda a: a.astype(np.float32)),
        ("chain", "model_.labels_", lambda a: a[:2]),
    ],
)  # fmt: skip
def test_arrays_out_of_shape_type_or_range_are_refused(path, name, key, change):
    file = File(name)
    file.put(key, change(file.array(key)))
    with pytest.raises(ModelFileError):
        load(file.write(path))


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("linear", "classes_", 5), ("linear", "n_features_in_", "4"), ("linear", "coef_", None),
        ("linear", "n_features_in_", True), ("linear", "machines_", {"array": "coef_"}),
        ("linear", "machines_", []), ("linear", "machines_", [{"proof": [1.0, 1.0]}]),
        ("linear", "machines_", [{"proof": [1.0, 1, 0.0, {"status": "solved"}, 1, []]}]),
        ("joint rbf", "_kernel_fit", {"tuple": ["rbf", "scale", 3, 0.0]}),
        ("joint rbf", "_support_rows", None), ("hull", "_kernel_fit", ["rbf", 1.0, 3, 0.0]),
        ("hull", "_kernel_fit", {"tuple": ["precomputed", 1.0, 3, 0.0]}),
        ("joint rbf", "kernel_shift_", -1.0), ("hull", "_shape_fit", {"tuple": [100, 5]}),
        ("hull", "machines_", {"tuple": []}), ("trees", "_machines", []),
        ("trees", "_kind", "classifier"), ("trees", "estimators_", [1, 2]),
        ("chain", "model_", None), ("chain", "model_", {"model": ["ChainModel", {}]}),
        ("chain", "model_", {"model": ["object", {}]}),
        ("chain", "model_", {"model": ["MatchingModel", {"normalize": True, "size": 10**9}]}),
    ],
)  # fmt: skip
def test_attributes_of_another_type_are_refused(path, name, key, value):
    file = File(name)
    file.manifest["attributes"][key] = value
    with pytest.raises(ModelFileError, match="does not hold a usable"):
        load(file.write(path))
    file = File(name)
    del file.manifest["attributes"][key]
    with pytest.raises(ModelFileError, match="does not hold a usable"):
        load(file.write(path))


@pytest.mark.parametrize("value", ["other", 5, None, ["linear"]])
def test_a_kernel_that_does_not_fit_is_refused(path, value):
    file = File("linear")
    file.manifest["parameters"]["kernel"] = value
    with pytest.raises(ModelFileError, match="does not hold a usable"):
        load(file.write(path))


@pytest.mark.parametrize("version", [True, "1", 1.0, 0, -1, None, [1], 3, 10**30])
def test_other_format_versions(path, version):
    file = File("linear")
    file.manifest["format_version"] = version
    newer = isinstance(version, int) and version > model_file.VERSION
    with pytest.raises(ModelFileError, match="update" if newer else "must be an integer >= 1"):
        load(file.write(path))


@pytest.mark.parametrize("version", range(1, 7))
def test_every_format_version_loads_or_says_what_to_do(path, version, monkeypatch):
    monkeypatch.setattr(model_file, "OLDEST", 3)
    monkeypatch.setattr(model_file, "VERSION", 4)
    file = File("linear")
    file.manifest.update(format_version=version, library_version="0.0\n" + "x" * 10**5)
    file.write(path)
    if 3 <= version <= 4:
        assert load(path).predict(X).size == len(X)
        return
    with pytest.raises(ModelFileError) as problem:
        load(path)
    said = str(problem.value)
    assert f"has format version {version} (written by cornerstep 0.0 xxx" in said
    assert "reads 3 to 4" in said
    assert ("update cornerstep" in said) == (version > 4)
    assert ("save it with a version of cornerstep in between" in said) == (version < 3)
    assert len(said) < len(str(path)) + 250


@pytest.mark.parametrize("other", [True, False])
def test_what_another_release_wrote_is_named_when_it_cannot_be_used(path, other):
    file = File("linear")
    del file.manifest["attributes"]["coef_"]
    if other:
        file.manifest["library_version"] = "0.0.9"
    with pytest.raises(ModelFileError, match="does not hold a usable") as problem:
        load(file.write(path))
    assert ("written by cornerstep 0.0.9, this is" in str(problem.value)) == other


@pytest.mark.parametrize("depth", [41, 300, 400, 1000, 100_000])
@pytest.mark.parametrize(("left", "right"), [("[", "]"), ('{"tuple": [', "]}")])
def test_deep_nesting_is_refused(path, depth, left, right):
    text = json.dumps(File("linear").manifest)
    nested = text.replace('"C": 1.0', f'"C": {left * depth}1{right * depth}').encode()
    with pytest.raises(ModelFileError):
        load(File("linear").write(path, nested))


@pytest.mark.parametrize("shape", [(2**40,), (10**9, 10**9), (0, 10**30), (2**62, 2**62), (3, 5)])
def test_shapes_without_the_bytes_are_refused(path, shape):
    header = repr({"descr": "<f8", "fortran_order": False, "shape": shape}).encode().ljust(117)
    file = File("linear")
    file.put("coef_", b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header + b"\n")
    with pytest.raises(ModelFileError, match="coef_"):
        load(file.write(path))


LOADS = """
import resource, sys
from cornerstep import ModelFileError, load
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    try:
        load(path)
    except ModelFileError:
        print("refused")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.linux
def test_what_never_ends_is_refused_at_once_and_bombs_take_no_memory(path, tmp_path):
    paths = []
    for entry in ("manifest.json", "arrays/coef_.npy"):
        bomb = tmp_path / entry.replace("/", "-")
        with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in contents("linear").items():
                if name != entry:
                    archive.writestr(name, data)
            with archive.open(entry, "w") as file:
                for _ in range(200):
                    file.write(bytes(2**20))
        paths.append(bomb)
        data = bytearray(bomb.read_bytes())  # and one that claims to be small
        struct.pack_into("<I", data, data.rfind(entry.encode()) - 22, 100)
        paths.append(bomb.with_suffix(".lies"))
        paths[-1].write_bytes(data)
    (tmp_path / "zero").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "fifo")
    paths += [tmp_path / "zero", tmp_path / "fifo", tmp_path]
    source = str(Path(cornerstep.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", LOADS, *map(str, paths)], capture_output=True, text=True,
        timeout=120, env=dict(os.environ, PYTHONPATH=source),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *refused, grown = done.stdout.split()
    assert len(refused) == len(paths)
    assert int(grown) < 100 * 1024


def test_an_array_is_used_once(path):
    file = File("linear")
    file.manifest["attributes"]["intercept_"] = {"array": "coef_"}
    with pytest.raises(ModelFileError, match="used twice"):
        load(file.write(path))


def test_large_files_are_not_packed(path, monkeypatch):
    """So that none unpacks to more than its size and the limit; and they load."""
    monkeypatch.setattr(cornerstep.files.model_file, "_EXPANSION", 1000)
    model = classifier("linear")[0]
    save(model, path)
    with zipfile.ZipFile(path) as archive:
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
    assert np.array_equal(load(path).coef_, model.coef_)


def test_what_would_not_load_is_not_saved(path):
    model = MulticlassSVC(random_state=0).fit(X, LABELS)
    for change in ({"kernel": "other"}, {"C": -1.0}):
        changed = copy.deepcopy(model).set_params(**change)
        with pytest.raises(ModelFileError, match="not as it was fitted"):
            save(changed, path)
    with pytest.raises(ModelFileError, match="give fewer notes"):
        save(model, path, notes={"text": "x" * 2**24})
    assert not path.exists()


JUNK: list[Any] = [
    None, True, 0, -1, 5, 10**9, 2**63, 1.5, 1e308, "", "x", "4", [], [1], [[]], {},
    {"float": "nan"}, {"float": "x"}, {"tuple": [1, 2]}, {"dict": [[1, 2]]}, {"objects": ["a", 1]},
    {"status": "solved"}, {"status": "no"}, {"traces": []}, {"array": "coef_"}, {"csr": {}},
    {"tree": []}, {"trees": []}, {"machine": {}}, {"model": ["ChainModel", {}]},
    {"loss": ["TopK", {"rho": [1], "costs": None, "per_example": False}]}, {"own_model": ["x", {}]},
]  # fmt: skip


def places(value, at=()):
    yield at
    if isinstance(value, dict | list):
        keys = value if isinstance(value, dict) else range(min(len(value), 5))
        for key in keys:
            yield from places(value[key], (*at, key))


def tamper_with_manifest(manifest, rng):
    parts = ["steps"] if manifest["steps"] else ["parameters", "attributes", "attributes"]
    root = manifest[rng.choice(parts)]
    *way, last = rng.choice([at for at in places(root) if at])
    for key in way:
        root = root[key]
    if isinstance(root, dict) and rng.random() < 0.2:
        del root[last]
    else:
        root[last] = copy.deepcopy(rng.choice(JUNK))


def tamper_with_array(file, rng):
    key = rng.choice(sorted(file.manifest["arrays"]))
    array = file.array(key).copy()
    ways = [
        array.ravel, lambda: array[: len(array) // 2], lambda: np.concatenate([array, array]),
        lambda: array[None], lambda: array.T, lambda: array[:0], lambda: array[::-1],
        lambda: np.array(3.0), lambda: array.astype("U3"),
    ]  # fmt: skip
    if array.dtype.kind in "if":
        ways += [
            lambda: array.astype(rng.choice(["i4", "f4", "u1", "f8", "i8", "b1", "f2", ">f8"])),
            lambda: array * 0 + rng.choice([-1, 3, 4, 10**9]), lambda: array * np.nan,
        ]  # fmt: skip
    new = rng.choice(ways)
    file.put(key, new() if array.ndim else np.array(rng.choice([0, 1.5])))


@pytest.mark.parametrize("name", [*CLASSIFIERS, *CHAINS, *TABLES])
def test_random_changes_are_refused_or_harmless(path, name):
    rng = random.Random(name)
    data = model_of(name)[1]
    refused = 0
    for _ in range(40):
        file = File(name)
        if rng.random() < 0.5:
            tamper_with_manifest(file.manifest, rng)
        else:
            tamper_with_array(file, rng)
        try:
            model = load(file.write(path))
        except ModelFileError:
            refused += 1
            continue
        model.predict(data)
        certificate(model).to_dict()
        last_step(model).model_size()
    assert refused > 10
