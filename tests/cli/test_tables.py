"""Tables as they come, on the command line: what a pipeline in Python would say of them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cornerstep
from cornerstep.cli.app import run
from cornerstep.learning.certificates import percent
from support.tables import LABELS, NAMES, TABLE, mixed

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
HEAD = [*NAMES, "answer"]


def written(table, labels, *, names=HEAD, sep=",", end="\n", comma=False, missing=""):
    """A CSV file as a program writes it, all words in quotes that need them."""
    file = io.StringIO()
    writer = csv.writer(file, delimiter=sep, lineterminator=end)
    if names:
        writer.writerow(names)
    for row, label in zip(table.tolist(), labels.tolist(), strict=True):
        cells = [missing if value is None or value != value else value for value in row]
        cells = [str(v).replace(".", ",") if comma and isinstance(v, float) else v for v in cells]
        writer.writerow([*cells, label])
    return file.getvalue()


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Runs a command in a folder with the table: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(written(TABLE, LABELS), encoding="utf-8")
    capsys.readouterr()

    def call(line):
        code = run(line.split())
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


MODELS = {
    "multiclass": cornerstep.MulticlassSVC(random_state=0),
    "kernel": cornerstep.ReducedHullSVC(random_state=0),
    "boost": cornerstep.SoftMarginBoostingClassifier(random_state=0),
}


@pytest.mark.parametrize("model", MODELS)
def test_the_raw_file_is_answered_as_by_the_pipeline_in_python(command, model):
    pd = pytest.importorskip("pandas")
    assert command(f"fit t.csv --target answer --model {model} -q -o m")[0] == 0
    table, labels = mixed(seed=1)
    table[::5, 4] = "never seen"
    table[::7, 1] = np.nan
    Path("new.csv").write_text(written(table, labels), encoding="utf-8")
    frame = pd.read_csv("t.csv")
    pipeline = cornerstep.table_pipeline(MODELS[model]).fit(frame[NAMES], frame["answer"])
    for name in ("t.csv", "new.csv"):
        code, out, err = command(f"predict m {name} --scores")
        assert (code, err) == (0, "")
        ours = [float(line.split("\t")[1]) for line in out.splitlines()[1:]]
        theirs = pipeline.decision_function(pd.read_csv(name)[NAMES])
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-9)
    assert command("certify m t.csv")[0] == 0
    assert command("evaluate m new.csv --json")[0] == 0


WAYS = {
    "semicolon": lambda: written(TABLE, LABELS, sep=";"),
    "semicolon, comma": lambda: written(TABLE, LABELS, sep=";", comma=True),
    "tab": lambda: written(TABLE, LABELS, sep="\t"),
    "bar": lambda: written(TABLE, LABELS, sep="|"),
    "windows": lambda: "\ufeff" + written(TABLE, LABELS, end="\r\n"),
    "NA": lambda: written(TABLE, LABELS, missing="NA"),
    "question mark": lambda: written(TABLE, LABELS, missing=" ? "),
    "blank lines": lambda: written(TABLE, LABELS, end="\n\n"),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_write_a_table_is_read_alike(command, way):
    command("fit t.csv --target answer -q -o m")
    wanted = command("predict m t.csv --scores")[1]
    Path("w.csv").write_bytes(WAYS[way]().encode())
    Path("p.csv.gz").write_bytes(gzip.compress(WAYS[way]().encode()))
    assert command("predict m w.csv --scores")[1] == wanted
    assert command("predict m p.csv.gz --scores")[1] == wanted
    assert command("fit w.csv --target answer -q -o w")[0] == 0
    assert command("predict w t.csv --scores")[1] == wanted
    assert command("predict w w.csv --scores --stream")[1].split()[:2] == wanted.split()[:2]


def test_standard_input(command, tmp_path):
    command("fit t.csv --target answer -q -o m")
    wanted = command("predict m t.csv")[1]
    source = str(Path(cornerstep.__file__).parents[1])
    for line in ("predict m -", "fit - --target answer -q -o again", "predict again -"):
        done = subprocess.run(
            [sys.executable, "-m", "cornerstep", *line.split()], cwd=tmp_path, timeout=300,
            input=(tmp_path / "t.csv").read_bytes(), capture_output=True, check=True,
            env={"PYTHONPATH": source, "PATH": "", "HOME": str(tmp_path)},
        )  # fmt: skip
        assert line.startswith("fit") or done.stdout.decode() == wanted


@pytest.mark.parametrize("option", ["", "--no-header"])
def test_a_table_without_a_heading(command, option):
    command("fit t.csv --target answer -q -o m")
    wanted = command("predict m t.csv")[1]
    Path("bare.csv").write_text(written(TABLE, LABELS, names=None), encoding="utf-8")
    assert command(f"fit bare.csv --target x7 -q -o bare {option}")[0] == 0
    assert command("predict bare bare.csv")[1] == wanted
    assert command("certify bare bare.csv")[0] == 0
    first = written(TABLE[:1], LABELS[:1], names=None)
    Path("one.csv").write_text(first, encoding="utf-8")
    assert command("predict bare one.csv")[1] == wanted.split()[0] + "\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b\n1,x\n", ["a", "b"]), ("1,x\n2,y\n", ["x1", "x2"]), ("a,b\nx,y\n", ["a", "b"]),
        ("0,1\n5,6\n7,8\n", ["0", "1"]), ("1,2\n1.5,6\n", ["1", "2"]),
        (",b\n0,x\n1,y\n", ["x1", "b"]), ("5.1,3.5,setosa\n4.9,3,virginica\n", ["x1", "x2", "x3"]),
        ('"a;b","c,d"\n1,2\n', ["a;b", "c,d"]),
        ("h\u00f6he;\u540d\n1;x\n", ["h\u00f6he", "\u540d"]),
        ('"say ""so""",b\n1,2\n', ['say "so"', "b"]), ('"a\nb",c\n1,2\n', ["a\nb", "c"]),
    ],
)  # fmt: skip
def test_headings_are_found_out(command, text, names):
    Path("h.csv").write_text(text, encoding="utf-8")
    err = command("fit h.csv --target nothing")[2]
    assert err.endswith("its columns are " + " ".join(", ".join(names).split()) + "\n")


def test_a_first_row_with_a_name_that_is_asked_for_is_a_heading(command):
    Path("years.csv").write_text("country,2019,2020\nA,1,2\nB,3,4\nA,1,3\nB,4,4\n")
    assert command("fit years.csv --target country -q -o m")[0] == 0
    assert "2: 2019; 2020" in command("inspect m")[1]


def test_columns_that_tell_nothing_are_said_and_left_out(command):
    n = len(TABLE)
    more = np.empty((n, 6), dtype=object)
    more[:, 0] = np.arange(n)
    more[:, 1] = [f"person, {k}" for k in range(n)]
    more[:, 2] = None
    more[:, 3] = np.random.default_rng(0).permutation(n) * 7 + 1000
    more[:, 4] = 1
    more[:, 5] = [f"2024-01-0{k % 3 + 1}" for k in range(n)]
    names = ["", "name", "empty", "customer_id", "constant", "day", *HEAD]
    Path("more.csv").write_text(written(np.hstack([more, TABLE]), LABELS, names=names))
    code, _, err = command("fit more.csv --target answer -q -o m")
    assert code == 0
    for name, why in (
        ("x1", "numbers the rows"), ("name", "like a name"), ("empty", "is empty"),
        ("customer_id", "like an identifier"),
    ):  # fmt: skip
        assert re.search(f"column '{name}' is left out: it .*{why}.*--keep {name}", err)
    assert "column 'day' holds dates: each is taken for a word" in err
    code, out, _ = command("inspect m --json")
    shown = json.loads(out)
    assert shown["notes"]["features"] == ["constant", "day", *NAMES]
    assert shown["notes"]["words"] == ["day", "sex", "town", "flag"]
    assert {"age", "missingindicator_age", "sex_f"} <= set(shown["features"])
    assert "customer_id" in command("inspect m")[1]
    code, _, err = command("fit more.csv --target answer -q -o m --keep customer_id --drop name")
    assert "customer_id" not in err
    assert "customer_id" in json.loads(command("inspect m --json")[1])["notes"]["features"]
    assert (
        "no feature 'nothing' (--keep)" in command("fit more.csv --target answer --keep nothing")[2]
    )


@pytest.mark.parametrize(
    "odd", ["{},234.50", "{}.3%", "$ {}", "{}'000", "{} 234", "€{},50", "unknown", "x"]
)
def test_columns_of_numbers_with_something_else_are_no_names(command, odd):
    """Amounts as people write them, or one word too many, make words of a column: it is said."""
    many = [odd.format(k) if "{" in odd or k % 9 == 0 else f"{k}.5" for k in range(len(TABLE))]
    few = [odd.format(1) if k % 9 == 0 else f"{k % 4}" for k in range(len(TABLE))]
    more = np.hstack([np.array([many, few], dtype=object).T, TABLE])
    text = written(more, LABELS, names=["many", "few", *HEAD])
    Path("odd.csv").write_text(text, encoding="utf-8")
    code, _, err = command("fit odd.csv --target answer -q -o m")
    assert code == 0
    assert f"column 'many' is left out: it holds numbers, but {many[0]!r} is none" in err
    assert f"column 'few' holds numbers, but {few[0]!r} is none: each is taken for a word" in err


@pytest.mark.parametrize("words", ["A{}", "10.0.0.{}", "{}-{}", "street {}", "{}b"])
def test_numbered_names_are_names(command, words):
    names = [words.format(k, k) for k in range(len(TABLE))]
    more = np.hstack([np.array([names], dtype=object).T, TABLE])
    Path("named.csv").write_text(written(more, LABELS, names=["name", *HEAD]))
    assert (
        "'name' is left out: it has a word of its own"
        in command("fit named.csv --target answer -q -o m")[2]
    )


@pytest.mark.parametrize("encoding", ["WINDOWS-1252", "UTF-16"])
def test_files_in_other_encodings_are_refused_with_what_to_do(command, encoding):
    text = written(TABLE, LABELS).replace("f,", "\xe4,")
    Path("other.csv").write_text(text, encoding=encoding)
    code, _, err = command("fit other.csv --target answer")
    assert code == 2
    assert f"iconv -f {encoding} -t UTF-8" in err


def test_one_row_is_predicted_and_not_trained_on(command):
    command("fit t.csv --target answer -q -o m")
    Path("one.csv").write_text(written(TABLE[:1], LABELS[:1]), encoding="utf-8")
    assert command("predict m one.csv")[1] == command("predict m t.csv")[1].split()[0] + "\n"
    code, _, err = command("fit one.csv --target answer")
    assert code == 2
    assert "at least two classes" in err


@pytest.mark.parametrize(
    ("cells", "refused"),
    [
        ([f"{k / 7:.3f}" for k in range(200)], True), ([str(k) for k in range(200)], True),
        ([f"w{k}" for k in range(200)], True), ([str(k % 30) for k in range(200)], False),
        ([f"{k % 4 / 4}" for k in range(200)], False), ([f"w{k % 50}" for k in range(200)], False),
    ],
    ids=["amounts", "numbers", "words", "many classes", "four shares", "many words"],
)  # fmt: skip
def test_targets_that_are_no_classes_are_refused_with_a_hint(command, cells, refused):
    rows = [f"{k % 9},{cell}" for k, cell in enumerate(cells)]
    Path("y.csv").write_text("\n".join(["a,y", *rows]) + "\n")
    code, _, err = command("fit y.csv --target y -q --max-iter 1")
    assert ("these are no classes; name a column of classes with --target" in err) == refused
    assert (code == 2) == refused


def test_units_do_not_matter(command):
    other = TABLE.copy()
    other[:, 1] = other[:, 1].astype(float) * 1e6
    Path("cents.csv").write_text(written(other, LABELS), encoding="utf-8")
    command("fit t.csv --target answer -q -o m")
    command("fit cents.csv --target answer -q -o cents")
    assert command("predict m t.csv")[1] == command("predict cents cents.csv")[1]
    assert command("fit t.csv --target answer -q --no-scale -o raw")[0] == 0
    assert "variance 1" in command("inspect m")[1]
    assert "variance 1" not in command("inspect raw")[1]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_streams_hold_out_and_report(command, monkeypatch, ending):
    pd = pytest.importorskip("pandas")
    monkeypatch.setattr("cornerstep.data.csv_table._CHUNK", 2**7)
    words = [] if ending == "csv" else ["sex", "town", "flag"]  # of Parquet, numbers are streamed
    names = [name for name in NAMES if name not in words]
    if ending == "parquet":
        pytest.importorskip("pyarrow")
        frame = pd.DataFrame(TABLE, columns=NAMES)[names].astype(float)
        frame.assign(answer=LABELS).to_parquet("t.parquet")
    line = f"fit t.{ending} --target answer -q --holdout 0.3 --json --seed 3"
    both = []
    for how in ("--stream", "--no-stream"):
        code, out, _ = command(f"{line} {how} -o m{how} --report r{how}.html --tol 1e-4")
        assert code == 0
        both.append(json.loads(out))
        assert "<svg" in Path(f"r{how}.html").read_text(encoding="utf-8")
        for again in ("--stream", "--no-stream"):
            assert command(f"certify m{how} t.{ending} {again}")[0] == 0
    one, other = (found["certificate"]["machines"][0]["objective"] for found in both)
    assert one == pytest.approx(other, rel=1e-3)
    assert both[0]["examples"] == both[1]["examples"] == {"training": 112, "held_out": 48}


@pytest.mark.parametrize(
    "line",
    [
        "fit t.csv --target answer -o t.csv", "fit t.csv --target answer --report t.csv",
        "fit t.csv --target answer -o link.csv", "predict m t.csv -o t.csv", "predict m t.csv -o m",
        "convert t.csv t.csv --target answer",
    ],
)  # fmt: skip
def test_what_is_read_is_never_overwritten(command, line):
    command("fit t.csv --target answer -q -o m")
    Path("link.csv").symlink_to("t.csv")
    before = Path("t.csv").read_bytes(), Path("m").read_bytes()
    code, _, err = command(line)
    assert code == 2
    assert "is what is read, and would be overwritten" in err
    assert (Path("t.csv").read_bytes(), Path("m").read_bytes()) == before


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("predict m old.csv", "column 'age' must hold numbers, as in training, row 2 has 'old'"),
        ("fit t.csv --target answer --sep ab", "--sep must be one character"),
        ("fit t.npz --sep ,", "--sep and --no-header are for CSV files"),
        ("fit t.npz --scale", "--scale is for CSV and Parquet files"),
        ("fit t.svm.gz", "unknown ending"),
        ("fit ids.csv --target y", "has no column that tells anything"),
        ("export m m.onnx", "takes one matrix of numbers"),
        ("convert t.csv t.csv.gz", "is for reading"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(command, line, words):
    command("fit t.csv --target answer -q -o m")
    old = TABLE.copy()
    old[1, 0] = "old"
    Path("old.csv").write_text(written(old, LABELS), encoding="utf-8")
    Path("ids.csv").write_text("id,y\n" + "".join(f"{k},{k % 2}\n" for k in range(50)))
    np.savez("t.npz", X=np.eye(4), y=np.arange(4) % 2)
    code, out, err = command(line)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
    assert "--drop" not in err


def test_a_column_that_turns_into_words_late(command, monkeypatch):
    """Read in chunks, its first ones are numbers; as words they are what the file says."""
    monkeypatch.setattr("cornerstep.data.csv_table._CHUNK", 8)
    rows = [f"{'01' if k % 2 else '1'},{k % 2}" for k in range(60)] + ["x,0"]
    Path("late.csv").write_text("\n".join(["a,y", *rows]) + "\n")
    for how in ("", "--stream"):
        assert command(f"fit late.csv --target y -q -o late {how}")[0] == 0
        assert command("evaluate late late.csv --json")[1].count('"top_1_error": 0.0') == 1


def test_models_of_pipelines_made_in_python_take_files(command):
    pd = pytest.importorskip("pandas")
    frame = pd.read_csv("t.csv")
    model = cornerstep.table_pipeline(MODELS["multiclass"]).fit(frame[NAMES], frame["answer"])
    cornerstep.save(model, "python")
    code, out, _ = command("predict python t.csv")
    assert code == 0
    assert out.split() == list(model.predict(frame[NAMES]))
    command("fit t.csv --target answer -q -o shell")
    loaded = cornerstep.load("shell")
    assert list(loaded.predict(frame[NAMES].to_numpy())) == out.split()


def test_tables_are_converted_with_their_words_and_gaps(command):
    pytest.importorskip("pyarrow")
    command("fit t.csv --target answer -q -o m")
    wanted = command("predict m t.csv --scores")[1]
    assert command("convert t.csv t.parquet --target answer")[0] == 0
    assert command("predict m t.parquet --scores")[1] == wanted
    assert command("convert t.parquet back.csv --target answer")[0] == 0
    assert command("predict m back.csv --scores")[1] == wanted


def test_flags_have_no_value_in_the_help(command):
    for name in ("fit", "path", "predict", "evaluate", "inspect", "certify", "convert"):
        lines = command(f"{name} --help")[1].lower().splitlines()
        assert not [line for line in lines if "bool" in line and "--help" not in line]


@pytest.mark.parametrize("model", MODELS)
def test_labels_are_named_as_the_file_has_them(command, model):
    Path("one.csv").write_text("a,y\n1,2\n2,2\n")
    err = command(f"fit one.csv --target y --model {model}")[2]
    assert err.endswith("only one class is present, 2\n")


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0.000123, "0.012 %"), (0.5, "50 %"), (0.994, "99 %"), (0.996, "100 %"), (7.4, "740 %"),
        (123.4, "12,340 %"),
    ],
)  # fmt: skip
def test_shares_have_no_exponents_where_they_are_large(share, shown):
    assert percent(share) == shown
