"""The probe as a user types it: files in, a table, a head and a picture out."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_digits

import cornerstep
from cornerstep.cli.app import run

X, Y = load_digits(return_X_y=True)
X, Y = X[:500].astype(np.float32), Y[:500]
WORDS = np.array(
    ["null", "eins", "zwei", "drei", "vier", "fuenf", "sechs", "sieben", "acht", "neun"]
)


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X[:350])
    np.save("y.npy", Y[:350])
    np.save("v.npy", X[350:])
    np.save("vy.npy", Y[350:])
    (tmp_path / "shards").mkdir()
    for name, rows in (("b.npy", X[200:350]), ("a.npy", X[:200])):
        np.save(tmp_path / "shards" / name, rows)
    np.save("one.npy", 0 * Y[:350])
    np.save("large.npy", 1e200 * X[:350].astype(float))
    (tmp_path / "holes").mkdir()
    np.save("holes/a.npy", np.where(np.arange(64) == 3, np.nan, X[350:]))
    np.save("words.npy", WORDS[Y[:350]])

    def call(line):
        code = run(line.split())
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


def test_errors_are_those_of_the_models_and_the_best_is_kept(command):
    line = "probe x.npy y.npy --validation v.npy vy.npy --values 0.1,0.001,1e-5 -k 3 --tol 1e-4"
    code, out, err = command(line + " -o best.cornerstep --json")
    assert code == 0
    found = json.loads(out)
    assert [row["C"] for row in found["models"]] == [1e-5, 0.001, 0.1]
    assert err.count("% wrong, solved") == 3
    for row in found["models"]:
        model = cornerstep.MulticlassSVC(loss="softmax", C=row["C"], tol=1e-6).fit(X[:350], Y[:350])
        assert row["objective"] == pytest.approx(model.objective_, rel=2e-4)
        first = np.mean(model.predict(X[350:]) != Y[350:])
        three = model.predict_top_k(X[350:], 3)
        assert row["top-1 error"] == pytest.approx(first, abs=0.02)
        misses = 1 - (three == Y[350:, None]).any(axis=1).mean()
        assert row["top-3 error"] == pytest.approx(misses, abs=0.02)
    best = cornerstep.load("best.cornerstep")
    errors = [row["top-1 error"] for row in found["models"]]
    assert best.C == found["best"] == found["models"][int(np.argmin(errors))]["C"]
    assert np.mean(best.predict(X[350:]) != Y[350:]) == pytest.approx(min(errors))


def test_a_folder_is_its_files_in_order_and_labels_may_be_words(command):
    _, whole, _ = command("probe x.npy y.npy --values 0.001 --json --seed 3")
    _, parts, _ = command("probe shards words.npy --values 0.001 --json --seed 3")
    one, other = (json.loads(out)["models"][0] for out in (whole, parts))
    assert one["top-1 error"] == other["top-1 error"]
    assert one["objective"] == pytest.approx(other["objective"], rel=1e-3)


def test_the_default_values_span_four_decades(command):
    code, out, err = command("probe x.npy y.npy")
    assert code == 0
    Cs = [float(line.split("\t")[0]) for line in out.splitlines()[1:]]
    assert len(Cs) == 10
    assert Cs[-1] / Cs[0] == pytest.approx(1e4, rel=1e-2)
    assert "best: C = " in err


def test_a_picture_and_a_head(command, tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    line = "probe x.npy y.npy --validation v.npy vy.npy --values 0.001 --json"
    code, out, _ = command(line + " --head head.pt --plot errors.svg")
    assert code == 0
    assert "<svg" in (tmp_path / "errors.svg").read_text(encoding="utf-8")
    head = torch.load("head.pt", weights_only=True)
    layer = torch.nn.Linear(64, 10)
    layer.load_state_dict({name: head[name] for name in ("weight", "bias")})
    with torch.no_grad():
        said = np.array(head["classes"])[layer(torch.tensor(X[350:])).argmax(dim=1).numpy()]
    error = json.loads(out)["models"][0]["top-1 error"]
    assert np.mean(said != Y[350:]) == pytest.approx(error)


@pytest.mark.parametrize("label", [-1, 4.5, 99])
def test_a_class_that_only_the_rows_kept_have_is_never_found(command, label):
    kept = np.random.default_rng(0).permutation(350)[:70]
    labels = Y[:350].astype(float)
    labels[kept] = label
    np.save("rare.npy", labels)
    code, out, _ = command("probe x.npy rare.npy --values 0.001 --json -k 9")
    assert code == 0
    row = json.loads(out)["models"][0]
    assert row["top-1 error"] == row["top-9 error"] == 1.0


@pytest.mark.parametrize("where", ["fit", "predict"])
def test_ctrl_c_keeps_the_best_so_far(command, monkeypatch, where):
    calls = []
    method = getattr(cornerstep.MulticlassSVC, where)

    def pressed(self, *arguments, **options):
        calls.append(where)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return method(self, *arguments, **options)

    monkeypatch.setattr(cornerstep.MulticlassSVC, where, pressed)
    line = "probe x.npy y.npy --validation v.npy vy.npy --values 1e-5,1e-3,0.1 --json"
    code, out, err = command(line + " -o best.cornerstep")
    found = json.loads(out)
    assert code == 130
    assert [row["C"] for row in found["models"]] == [1e-5, 1e-3]
    assert "interrupted after 2 C" in err
    assert found["best"] == cornerstep.load("best.cornerstep").C


def test_a_limit_is_said_by_the_exit_code(command):
    code, out, _ = command("probe x.npy y.npy --values 100 --tol 1e-12 --time-limit 0 --json")
    assert code == 3
    assert json.loads(out)["models"][0]["status"] != "solved"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("x.npy vy.npy", "labels of shape (150,)"),
        ("shards vy.npy", "a row for each label"),
        ("nothing y.npy", "nothing"),
        (". y.npy", "."),
        ("x.npy y.npy --validation v.npy words.npy", "labels of shape (350,)"),
        ("x.npy y.npy --validation x.npy words.npy", "classes that y.npy has not: acht"),
        ("x.npy y.npy --device tpu", "--device must be one of auto, cpu, cuda"),
        ("x.npy y.npy --dtype float16", "--dtype must be one of"),
        ("x.npy y.npy --dtype bfloat16 --device cpu", "bfloat16 needs a GPU"),
        ("x.npy y.npy --values 1,a", "--values takes numbers"),
        ("x.npy y.npy --values 0", "positive"),
        ("x.npy y.npy -k 10", "-k must be from 1"),
        ("x.npy y.npy -k 0", "-k must be from 1"),
        ("x.npy y.npy --holdout 1", "--holdout must be a share"),
        ("x.npy y.npy --loss squared", "loss must be one of"),
        ("x.npy y.npy --plot errors.xyz", "--plot must end in"),
        ("x.npy y.npy --head x.npy", "would be overwritten"),
        ("x.npy y.npy -o missing/model", "there is no folder"),
        ("x.npy y.npy -o same --head same", "same would be written twice"),
        ("x.npy y.npy --values 0.01,inf", "finite"),
        ("x.npy one.npy", "one.npy must have two classes"),
        ("x.npy y.npy --validation holes vy.npy", "missing or infinite values"),
        ("large.npy y.npy", "finite as float32"),
    ],
)
def test_wrong_input_is_one_line_before_anything_is_written(command, line, words, tmp_path):
    before = sorted(tmp_path.iterdir())
    code, out, err = command(f"probe {line}")
    assert code == 2
    assert out == ""
    assert words in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before
