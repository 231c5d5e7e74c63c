"""The command line as a user types it: every format, every command, every kind of bad input."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

import cornerstep
from cornerstep.cli.app import run
from support.fitted_models import chains

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
X, LABELS = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[LABELS]
ENDINGS = ("csv", "tsv", "parquet", "svm", "npz")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same data in every format, chains, and a trained model."""
    place = tmp_path_factory.mktemp("cli")
    rows = [
        ",".join(map(repr, map(float, x))) + f",{name}" for x, name in zip(X, NAMES, strict=True)
    ]
    (place / "iris.csv").write_text("\n".join(["a,b,c,d,kind", *rows]) + "\n")
    np.savez(place / "numbers.npz", X=X, y=LABELS)
    for ending in ENDINGS:
        assert run(["convert", str(place / "numbers.npz"), str(place / f"n.{ending}")]) == 0
    inputs, labelings = chains()
    np.savez(
        place / "chains.npz",
        X=np.vstack(inputs),
        y=np.concatenate(labelings),
        sequence=np.repeat(np.arange(len(inputs)), [len(y) for y in labelings]),
    )
    for ending in ("csv", "svm"):
        assert run(["convert", str(place / "chains.npz"), str(place / f"chains.{ending}")]) == 0
    arguments = ["fit", "iris.csv", "--target", "kind", "--holdout", "0.2", "-o", "iris.cornerstep"]
    here = os.getcwd()
    os.chdir(place)
    try:
        assert run([*arguments, "-q"]) == 0
        hull = ["fit", "n.npz", "--model", "kernel", "--nu", "0.3", "-o", "hull.cornerstep", "-q"]
        assert run(hull) == 0
    finally:
        os.chdir(here)
    return place


@pytest.fixture
def command(folder, monkeypatch, capsys):
    """Runs a command in the folder: exit code, stdout, stderr."""
    monkeypatch.chdir(folder)
    capsys.readouterr()

    def call(line):
        code = run(line.split())
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


def environment():
    source = str(Path(cornerstep.__file__).parents[1])
    return dict(os.environ, PYTHONPATH=source, OMP_NUM_THREADS="1")


def typed(folder, *arguments, **options):
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "cornerstep", *arguments],
        cwd=folder, env=environment(), capture_output=True, text=True, timeout=300, **options,
    )  # fmt: skip


# -- training and using --------------------------------------------------------------------------


def test_a_whole_session_in_processes_of_its_own(folder):
    done = typed(folder, "fit", "iris.csv", "--target", "kind", "-o", "whole.cornerstep",
                 "--report", "whole.html", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["certificate"]["status"] == "solved"
    assert "\x1b" not in done.stdout + done.stderr
    assert "<svg" in (folder / "whole.html").read_text(encoding="utf-8")
    guess = typed(folder, "predict", "whole.cornerstep", "iris.csv")
    assert guess.returncode == 0
    assert guess.stderr == ""
    assert np.mean(np.array(guess.stdout.split()) == NAMES) > 0.9
    wrong = typed(folder, "predict", "whole.cornerstep", "nothing.csv")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == "error: there is no file nothing.csv\n"


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_format_trains_the_same_model(command, folder, ending):
    table = "--target target" if ending in ("csv", "tsv", "parquet") else ""
    code, out, _ = command(f"fit n.{ending} {table} -o {ending}.cornerstep --json")
    assert code == 0
    shown = json.loads(out)
    assert shown["errors"]["training"][0] < 0.1
    assert command(f"certify {ending}.cornerstep n.{ending}")[0] == 0
    code, out, _ = command(f"predict {ending}.cornerstep n.{ending}")
    expected = cornerstep.load(folder / f"{ending}.cornerstep").predict(X)
    assert out.split() == [str(label) for label in expected]


@pytest.mark.parametrize(
    ("options", "data", "holds"),
    [
        ("--model kernel --nu 0.3", "n.npz", "support_vectors"),
        ("--model kernel -C 2 --kernel linear --tol 0.01", "n.svm", "support_vectors"),
        ("--model boost --nu 0.3 --tol 0.1", "n.svm", "trees"),
        ("--loss top-k -k 2 --kernel rbf --gamma 1", "n.npz", "support_vectors"),
        ("--set fit_intercept=false --set solver=block", "n.npz", "support_examples"),
    ],
)  # fmt: skip
def test_every_model_is_trained_evaluated_and_certified(command, options, data, holds):
    code, out, _ = command(f"fit {data} {options} --holdout 0.3 --top-k 2 --json -o any.cornerstep")
    assert code == 0
    shown = json.loads(out)
    assert shown[holds] > 0
    assert len(shown["errors"]["held-out"]) == 2
    assert command(f"certify any.cornerstep {data}")[0] == 0
    code, out, _ = command(f"evaluate any.cornerstep {data} --top-k 3 --json")
    assert code == 0
    errors = json.loads(out)
    assert errors["top_1_error"] >= errors["top_2_error"] >= errors["top_3_error"] == 0.0


@pytest.mark.parametrize("ending", ["npz", "csv", "svm"])
def test_chains(command, ending):
    table = "--target target --sequence sequence" if ending == "csv" else ""
    line = f"fit chains.{ending} {table} --model structured-chain -o chains.cornerstep"
    code, out, _ = command(f"{line} --tol 0.05 --holdout 0.25 --report chains.html")
    assert code == 0
    assert "held-out error" in out
    assert command(f"certify chains.cornerstep chains.{ending}")[0] == 0
    code, out, _ = command(f"evaluate chains.cornerstep chains.{ending} --json")
    assert json.loads(out)["label_error"] < 0.5
    code, out, _ = command(f"predict chains.cornerstep chains.{ending}")
    assert code == 0
    assert len(out.split()) == sum(len(y) for y in chains()[1])


def test_columns_are_found_by_name(command, folder):
    """Other columns, in another order: the model takes its own."""
    lines = (folder / "iris.csv").read_text().splitlines()
    turned = [",".join([*line.split(",")[::-1], str(k)]) for k, line in enumerate(lines)]
    turned[0] = "kind,d,c,b,a,number"
    (folder / "turned.csv").write_text("\n".join(turned))
    assert (
        command("predict iris.cornerstep turned.csv")[1]
        == command("predict iris.cornerstep iris.csv")[1]
    )
    (folder / "less.csv").write_text("a,b,c\n1,2,3\n")
    assert "no column 'd'" in command("predict iris.cornerstep less.csv")[2]


def test_top_k_and_scores(command):
    _, out, _ = command("predict iris.cornerstep iris.csv --top-k 2")
    assert [len(line.split("\t")) for line in out.splitlines()] == [2] * 150
    _, out, _ = command("predict iris.cornerstep iris.csv --scores")
    heading, *rows = out.splitlines()
    assert heading.split("\t") == ["setosa", "versicolor", "virginica"]
    best = np.array([[float(v) for v in row.split("\t")] for row in rows]).argmax(axis=1)
    _, out, _ = command("predict iris.cornerstep iris.csv")
    assert out.split() == [heading.split("\t")[k] for k in best]


def test_what_was_left_to_the_data_is_shown(command):
    for given, used in (("", 0.5), ("--smoothing auto", 0.5), ("--smoothing 0.2", None)):
        code, _, _ = command(f"fit iris.csv --target kind {given} -o smooth.cornerstep")
        assert code == 0
        assert ("smoothing=0.5" in command("inspect smooth.cornerstep")[1]) == (used is not None)
        shown = json.loads(command("inspect smooth.cornerstep --json")[1])
        assert shown["chosen"] == ({} if used is None else {"smoothing": used})


def test_a_gap_that_was_asked_for_as_such_has_no_share(command):
    commands = {
        "fit iris.csv --target kind --model boost --nu 0.5 -o asked.cornerstep": False,
        "fit iris.csv --target kind -o asked.cornerstep": True,
    }
    for text, relative in commands.items():
        for out in (command(text)[1], command("inspect asked.cornerstep")[1]):
            shown = next(line for line in out.splitlines() if line.strip().startswith("gap"))
            assert ("%" in shown) == relative


def test_words_in_streamed_parquet_files(command, tmp_path):
    """Labels may be words, and so may columns that are dropped; to predict, none are looked at."""
    pytest.importorskip("pyarrow")
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((90, 3)), columns=list("abc"))
    table["animal"] = np.array(["ape", "bee", "cat"])[np.arange(90) % 3]
    table["note"] = "none"
    table.to_parquet(tmp_path / "t.parquet")
    data, model = tmp_path / "t.parquet", tmp_path / "t.cornerstep"
    line = f"fit {data} --target animal --drop note --stream -o {model}"
    assert command(line)[0] == 0
    for name in ("predict", "evaluate", "certify"):
        code, _, error = command(f"{name} {model} {data} --stream")
        assert code == 0, error
    assert set(command(f"predict {model} {data} --stream")[1].split()) <= {"ape", "bee", "cat"}


def test_inspect(command):
    code, out, _ = command("inspect iris.cornerstep")
    assert code == 0
    for words in ("MulticlassSVC", "solved", "checksums right", "120 of 150 rows of iris.csv"):
        assert words in out
    shown = json.loads(command("inspect iris.cornerstep --json")[1])
    assert shown["notes"]["features"] == ["a", "b", "c", "d"]


def test_path(command):
    code, out, _ = command("path iris.csv --target kind --values 0.1,1 --json")
    assert code == 0
    rows = json.loads(out)
    assert [row["C"] for row in rows] == [0.1, 1.0]
    assert all(row["relative gap"] <= 1e-3 for row in rows)
    code, out, _ = command("path n.npz --model kernel --parameter nu --values 0.1,0.3 --holdout 0")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["nu", "0.3", "0.1"]


@pytest.mark.parametrize(
    ("options", "data"), [("", "iris.csv"), ("--model boost", "n.npz"), ("--model kernel", "n.npz")]
)
def test_export_answers_as_the_model_does(command, folder, options, data):
    runtime = pytest.importorskip("onnxruntime")
    table = "--target kind" if data == "iris.csv" else ""
    assert command(f"fit {data} {table} {options} --tol 0.1 -o out.cornerstep")[0] == 0
    code, out, err = command("export out.cornerstep out.onnx")
    assert (code, out, err.count("\n")) == (0, "", 1)
    session = runtime.InferenceSession(str(folder / "out.onnx"), providers=["CPUExecutionProvider"])
    scores, labels = session.run(None, {"X": X.astype(np.float32)})
    classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    model = cornerstep.load(folder / "out.cornerstep")
    assert scores == pytest.approx(model.decision_function(X.astype(np.float32)), abs=1e-4)
    assert np.mean(np.array(classes)[labels] == model.predict(X)) > 0.98


def test_certify_finds_out_other_data(command, folder):
    other = (folder / "iris.csv").read_text().replace("5.1,", "9.1,")
    (folder / "other.csv").write_text(other)
    code, out, _ = command("certify iris.cornerstep other.csv")
    assert code == 1
    assert "DOES NOT HOLD" in out


def test_limits_have_an_exit_code_and_keep_the_model(command, folder):
    code, out, _ = command("fit iris.csv --target kind --max-iter 1 --tol 1e-9 -o limit.cornerstep")
    assert code == 3
    assert "iteration limit" in out
    assert command("fit iris.csv --target kind --time-limit 0 -o limit.cornerstep")[0] == 3
    assert command("predict limit.cornerstep iris.csv")[0] == 0


def test_help_shows_an_example(command):
    code, out, _ = command("--help")
    assert code == 0
    names = "fit path predict evaluate inspect certify convert export demo"
    for name in names.split():
        assert name in out
        code, text, _ = command(f"{name} --help")
        assert code == 0
        assert f"Example: cornerstep {name}" in " ".join(text.split())
    assert command("--version")[1].strip() == cornerstep.__version__


def test_the_examples_of_the_help_run(command, folder):
    """Each as it stands in the help, on a few digits."""
    images, digits = load_digits(n_class=10, return_X_y=True)
    heading = ",".join([*(f"pixel{k}" for k in range(64)), "digit"])
    rows = [",".join(map(str, [*x.tolist(), y])) for x, y in zip(images, digits, strict=True)]
    for name, some in (("digits", rows[:300]), ("new", rows[300:310]), ("test", rows[310:400])):
        (folder / f"{name}.csv").write_text("\n".join([heading, *some]))
    for name in ["fit", "path", "predict", "evaluate", "inspect", "certify", "convert", "export"]:
        text = " ".join(command(f"{name} --help")[1].replace("\u2502", " ").split())
        example = text.partition("Example: cornerstep ")[2]
        line = re.split(r" Ctrl-C | \u256d| > ", example)[0]
        code, _, err = command(line)
        assert code == 0, (line, err)
    assert (folder / "digits.onnx").exists()
    assert "<svg" in (folder / "report.html").read_text(encoding="utf-8")


# -- what can go wrong ---------------------------------------------------------------------------

BAD_FILES = {
    "empty.csv": "",
    "heading.csv": "a,b\n",
    "ragged.csv": "a,b\n1,2\n1\n",
    "word.csv": "a,b\n1,x\nfoo,y\n",
    "twice.csv": "a,a,b\n1,2,3\n",
    "missing.csv": "a,b\nnan,x\n1,y\n",
    "infinite.csv": "a,b\n1,x\ninf,y\n",
    "one.csv": "a,b\n1,x\n2,x\n",
    "unlabelled.csv": "a,b\n1,x\n2,\n3,y\n",
    "bad.svm": "1 1:2 1:x\n",
    "bad.npz": "not a zip",
    "bad.parquet": "not parquet",
    "strange.csv": "a,b,c,d,kind\n1,2,3,4,rose\n",
    "broken.cornerstep": "not a model",
}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fit empty.csv --target b", "must have a heading"),
        ("fit heading.csv --target b", "must have a heading"),
        ("fit ragged.csv --target b", "1 values in line 3"),
        ("convert word.csv w.svm --target b", "column 'a' of word.csv must hold numbers, row 2"),
        ("fit twice.csv --target b", "two columns named 'a'"),
        ("convert missing.csv m.npz --target b", "row 1, column 'a'"),
        ("fit infinite.csv --target b", "infinite values, the first in row 2, column 'a'"),
        ("fit one.csv --target b", "at least two classes"),
        ("fit unlabelled.csv --target b", "has no label in row 2"),
        ("fit bad.svm", "not an svmlight file"),
        ("fit bad.npz", "not an npz file"),
        ("fit bad.parquet --target b", "not a Parquet file"),
        ("fit iris.csv", "name their column with --target"),
        ("fit iris.csv --target king", "no column 'king'"),
        ("fit iris.csv --target kind --drop e", "no column 'e'"),
        ("fit n.npz --target y", "--target is for CSV and Parquet"),
        ("fit iris.xls", "unknown ending"),
        ("fit nothing.csv", "there is no file nothing.csv"),
        ("fit n.npz --model tree", "--model must be one of"),
        ("fit n.npz --nu 0.2", "--nu is not for --model multiclass"),
        ("fit n.npz --set what=1", "--set what=... is not for"),
        ("fit n.npz --set what", "NAME=VALUE"),
        ("fit n.npz -C -1", "C must be a positive number"),
        ("fit n.npz -C x", "-C"),
        ("fit n.npz --loss square", "loss must be one of"),
        ("fit n.npz --holdout 1.5", "--holdout must be a share"),
        ("fit n.npz --top-k 9", "--top-k must be from 1 to 3"),
        ("fit n.npz --model structured-chain", "which rows form a chain"),
        ("fit n.npz -o nowhere/m.cornerstep", "there is no folder nowhere"),
        ("fit n.npz --wat", "No such option"),
        ("fit", "Missing argument"),
        ("wat", "No such command"),
        ("path n.npz --model boost", "has no C: --parameter must be one of nu"),
        ("path n.npz --values 1,x", "numbers separated by commas"),
        ("predict broken.cornerstep n.npz", "not a cornerstep model file"),
        ("predict nothing.cornerstep n.npz", "cannot read nothing.cornerstep"),
        ("predict iris.cornerstep chains.npz", "takes 4 features"),
        ("predict iris.cornerstep iris.csv --top-k 4", "--top-k must be from 1 to 3"),
        ("evaluate iris.cornerstep strange.csv", "label rose in row 1"),
        ("certify iris.cornerstep strange.csv", "label rose in row 1"),
        ("convert iris.csv iris.svm --target kind", "need numbers as labels"),
        ("convert iris.csv iris.doc --target kind", "unknown ending"),
        ("export iris.cornerstep iris.pmml", "must end in .onnx"),
        ("export iris.cornerstep nowhere/iris.onnx", "cannot write nowhere/iris.onnx"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(command, folder, line, words):
    for name, text in BAD_FILES.items():
        (folder / name).write_text(text)
    code, out, err = command(line)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("error: ")
    assert words in err


def test_ctrl_c_saves_the_best_model_so_far(command, folder, monkeypatch):
    """The signal comes while the loop runs, as from a keyboard."""
    from cornerstep.multiclass import training as multiclass_run
    from cornerstep.optimiser.loop import run as loop

    def interrupted(*arguments, **options):
        threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,)).start()
        return loop(*arguments, **options)

    monkeypatch.setattr(multiclass_run, "run", interrupted)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    rng = np.random.default_rng(0)
    np.savez(folder / "hard.npz", X=rng.standard_normal((200, 30)), y=rng.integers(0, 5, 200))
    try:
        code, out, _ = command(
            "fit hard.npz --solver fw-open-loop --tol 0 --max-iter 100000000 -C 100 "
            "-o stopped.cornerstep"
        )
    finally:
        signal.signal(signal.SIGINT, previous)
    assert code == 130
    assert "interrupted" in out
    assert cornerstep.load(folder / "stopped.cornerstep").status_ is cornerstep.Status.INTERRUPTED


def test_ctrl_c_before_training_is_no_crash(command, monkeypatch):
    from cornerstep.cli import training

    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "read", stop)
    assert command("fit n.npz") == (130, "", "interrupted; nothing unfinished was saved\n")


def test_ctrl_c_while_modules_are_imported_is_one_line():
    """At any of the imports that a command needs, from its own first one on."""
    code = """
import builtins, sys
from cornerstep.cli import main
genuine = builtins.__import__
def pressed(name, *rest):
    if name == sys.argv[1]:
        raise KeyboardInterrupt
    return genuine(name, *rest)
builtins.__import__ = pressed
main(["--version"])
"""
    for name in ("cornerstep.cli.app", "typer", "cornerstep.cli.options", "sklearn.exceptions"):
        done = subprocess.run(
            [sys.executable, "-c", code, name], capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stderr) == (130, "interrupted\n"), name


@pytest.mark.parametrize("ending", ["csv", "parquet", "svm", "npy", "folder"])
def test_fit_reads_in_blocks(command, folder, tmp_path, ending, monkeypatch):
    """The same certificate and errors as with all rows in memory, within the tolerance."""
    from cornerstep.data import rows as streaming

    monkeypatch.setattr(streaming, "BLOCK_BYTES", 2**10)
    monkeypatch.setattr("cornerstep.data.csv_table._CHUNK", 2**7)
    options = "-C 0.1 --tol 1e-3 --top-k 2 --json"
    labels = "" if ending == "svm" else "--target target"
    data = folder / f"n.{ending}"
    if ending == "npy":
        data, target = tmp_path / "X.npy", tmp_path / "y.npy"
        np.save(data, X)
        np.save(target, LABELS)
        labels = f"--target {target}"
    elif ending == "folder":
        data = tmp_path / "parts"
        data.mkdir()
        (data / "part.parquet").write_bytes((folder / "n.parquet").read_bytes())
    model = tmp_path / "model.cornerstep"
    code, out, _ = command(f"fit {data} {labels} {options} --stream -o {model}")
    assert code == 0
    streamed = json.loads(out)
    other = data if ending != "folder" else folder / "n.parquet"
    code, out, _ = command(f"fit {other} {labels} {options} --no-stream")
    whole = json.loads(out)
    both = [found["certificate"]["machines"][0]["objective"] for found in (streamed, whole)]
    assert both[0] == pytest.approx(both[1], rel=2e-3)
    assert streamed["certificate"]["status"] == "solved"
    assert streamed["examples"] == {"training": 150, "held_out": 0}
    assert streamed["errors"]["training"] == pytest.approx(whole["errors"]["training"], abs=0.03)
    counted, read = [], streaming.Rows.blocks

    def blocks(rows):
        for block in read(rows):
            counted.append(block.shape[0])
            yield block

    monkeypatch.setattr(streaming.Rows, "blocks", blocks)
    # what uses the model reads in blocks too, and says the same as with all rows in memory
    for line in (
        f"predict {model} DATA", f"predict {model} DATA --top-k 2",
        f"predict {model} DATA --scores", f"evaluate {model} DATA --top-k 2 --json",
        f"certify {model} DATA --json",
    ):  # fmt: skip
        counted.clear()
        code, out, shown = command(line.replace("DATA", str(data)) + " --stream")
        assert code == 0, shown
        assert len(counted) > 2
        assert max(counted) < 100
        code, wanted, _ = command(line.replace("DATA", str(other)) + " --no-stream")
        assert code == 0
        _assert_same(out, wanted)


def _assert_same(out, wanted):
    """Equal words, and numbers but for the last digits."""
    ours, theirs = (re.split(r"[\s,]+", text) for text in (out, wanted))
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        try:
            assert float(mine) == pytest.approx(float(other), rel=1e-6, abs=1e-9)
        except ValueError:
            assert mine == other


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("predict hull.cornerstep n.svm --stream", "--stream is for multi-class models"),
        ("evaluate iris.cornerstep numbers.npz --stream", "--stream is for CSV, Parquet, svmlight"),
        ("predict numbers.cornerstep wide.svm --stream", "must be at least 9"),
        ("predict numbers.cornerstep narrow.npy", "takes 4 features"),
    ],
)
def test_what_models_cannot_read_in_blocks(command, folder, line, message):
    assert command("fit n.npz -q -o numbers.cornerstep")[0] == 0
    (folder / "wide.svm").write_text("1 9:1.0\n")
    np.save(folder / "narrow.npy", X[:, :2])
    code, _, shown = command(line)
    assert code != 0
    assert message in " ".join(shown.split())


USING = """
import resource, sys
from cornerstep.data import rows as streaming
from cornerstep.cli.app import run

streaming.BLOCK_BYTES = 2**22
model, small, large, target = sys.argv[1:]
peaks = []
for data, labels in ((small, target + ".few.npy"), (large, target + ".npy")):
    assert run(["predict", model, data, "--scores", "-o", "/dev/null"]) == 0
    for command in ("evaluate", "certify"):
        code = run([command, model, data, "--target", labels, "--json"])
        assert code == 0 or data == small
    peaks.append(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print(peaks[1] - peaks[0])
"""


@pytest.mark.slow
@pytest.mark.linux
def test_resident_memory_of_what_uses_models(tmp_path):
    """On 120 MB: predict, evaluate and certify take less than half of that."""
    rng = np.random.default_rng(0)
    n, d = 60_000, 500
    y = rng.integers(5, size=n)
    data = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, (n, d))
    data[:] = rng.standard_normal((1000, d), dtype=np.float32)[rng.integers(1000, size=n)]
    data[np.arange(n), y] += 3
    data.flush()
    np.save(tmp_path / "y.npy", y)
    np.save(tmp_path / "few.npy", data[:300])
    np.save(tmp_path / "y.few.npy", y[:300])
    model = cornerstep.MulticlassSVC(C=1e-3, tol=0.05).fit(data, y)
    notes = {"data": "X.npy", "rows": n, "training_rows": n}
    cornerstep.save(model, tmp_path / "model", notes=notes)
    names = [str(tmp_path / name) for name in ("model", "few.npy", "X.npy", "y")]
    done = subprocess.run(
        [sys.executable, "-c", USING, *names], capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) < data.nbytes / 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("n.npz --stream", "--stream is for CSV, Parquet, svmlight and npy"),
        ("- --target target --stream", "and npy files, - is standard input"),
        ("n.svm --stream --kernel rbf", "--stream is for --model multiclass"),
        ("n.parquet --stream", "name their column with --target"),
        ("n.parquet --stream --target no", "has no column 'no'"),
    ],
)
def test_what_cannot_be_read_in_blocks(command, arguments, message):
    code, _, shown = command(f"fit {arguments}")
    assert code != 0
    assert message in " ".join(shown.split())


def test_large_files_are_read_in_blocks(folder, monkeypatch):
    from cornerstep.cli import data

    assert not data.is_large(folder / "n.svm")
    monkeypatch.setattr(data, "_LARGE", 0.0)
    assert data.is_large(folder / "n.svm")
    assert data.is_large(folder / "n.csv")
    assert not data.is_large(folder / "n.npz")


@pytest.mark.slow
def test_compile_prepares_what_default_fits_need(capsys):
    assert run(["compile"]) == 0
    said = capsys.readouterr().out
    for name in ("MulticlassSVC", "ReducedHullSVC", "SoftMarginBoosting", "StructuredSVC"):
        assert name in said
    assert "kept in " in said
