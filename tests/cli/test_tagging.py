"""Taggers on the command line: from sentences in columns to labels behind them."""

import json
from io import BytesIO, TextIOWrapper

import numpy as np
import pytest

import cornerstep
from cornerstep.cli.app import run
from cornerstep.structured import entity_scores, read_conll

WORDS = {"DT": ["the", "a"], "NN": ["cat", "dog", "bird"], "VB": ["sees", "likes"]}
PATTERNS = (
    ("DT B-NP", "NN I-NP", "VB O", "DT B-NP", "NN I-NP"), ("NN B-NP", "VB O"),
    ("DT B-NP", "NN I-NP", "VB O"),
)  # fmt: skip


def sentences(n, seed, label=True):
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        for part in PATTERNS[rng.integers(3)]:
            pos, tag = part.split()
            lines.append(f"{rng.choice(WORDS[pos])} {pos}" + f" {tag}" * label)
        lines.append("")
    return "\n".join(lines) + "\n"


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.conll").write_text(sentences(40, 0))
    (tmp_path / "empty.conll").write_text("\n")
    (tmp_path / "test.conll").write_text(sentences(15, 1))
    (tmp_path / "new.conll").write_text(sentences(15, 1, label=False))

    def call(line):
        code = run(line.split())
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


TRAIN = "tag train.conll --columns word,pos,tag"


def test_from_training_to_labels(command, tmp_path):
    code, out, _ = command(f"{TRAIN} --test test.conll -o m.cornerstep")
    assert code == 0
    assert "token error     0.00 %" in out
    assert "constraints" in out
    assert "BIO" in out
    model = cornerstep.load("m.cornerstep")
    test = read_conll("test.conll", ["word", "pos", "tag"])
    assert model.predict(test.X) == test.y
    assert model.constraints == "BIO"

    code, out, _ = command("predict m.cornerstep new.conll")
    assert code == 0
    assert out == (tmp_path / "test.conll").read_text()
    command("predict m.cornerstep test.conll -o answers.conll")
    lines = (tmp_path / "answers.conll").read_text().splitlines()
    assert all(fields[-1] == fields[-2] for fields in map(str.split, lines) if fields)

    code, out, _ = command("evaluate m.cornerstep test.conll --json")
    found = json.loads(out)
    assert (code, found["sentences"], found["token_error"]) == (0, 15, 0.0)
    assert found["entities"]["all"]["f1"] == 1.0

    assert command("certify m.cornerstep train.conll")[0] == 0
    code, out, _ = command("certify m.cornerstep test.conll")
    assert code == 1
    assert "DOES NOT HOLD" in out
    assert "SequenceTagger" in command("inspect m.cornerstep")[1]


def test_sentences_from_standard_input(command, monkeypatch, tmp_path):
    command(f"{TRAIN} -o m.cornerstep")
    text = (tmp_path / "test.conll").read_bytes()
    for line in ("predict m.cornerstep", "evaluate m.cornerstep"):
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(text), "ascii"))
        code, out, _ = command(f"{line} -")
        assert code == 0
        assert out.split()[2:] == command(f"{line} test.conll")[1].split()[2:]


def test_errors_are_those_of_the_answers(command):
    code, out, _ = command(f"{TRAIN} --test test.conll --lam 100 --json -o m.cornerstep")
    assert code == 0
    found = json.loads(out)["test"]
    test = read_conll("test.conll", ["word", "pos", "tag"])
    answers = cornerstep.load("m.cornerstep").predict(test.X)
    wrong = [
        a != b for y, s in zip(test.y, answers, strict=True) for a, b in zip(y, s, strict=True)
    ]
    assert found["token_error"] == pytest.approx(np.mean(wrong))
    scores = entity_scores(test.y, answers)
    assert found["entities"]["all"]["f1"] == pytest.approx(scores.all.f1)
    assert found["entities"]["NP"]["entities"] == scores.types["NP"].there


def test_templates_parts_and_labels_without_entities(command):
    line = "tag train.conll --columns word,pos,_ --target pos --json -o m.cornerstep"
    code, out, _ = command(f"{line} --parts --test test.conll")
    found = json.loads(out)
    assert code == 0
    assert found["constraints"] is None
    assert "word.suffix3[-1..1]" in found["templates"]
    assert "entities" not in found["test"]
    assert found["test"]["token_error"] == 0.0
    code, out, _ = command(f"{line} --template word[0] --template word.shape[-1..0]")
    assert json.loads(out)["templates"] == ["word[0]", "word.shape[-1..0]"]


def test_a_limit_is_said_by_the_exit_code(command):
    code, out, _ = command(f"{TRAIN} --lam 1e-6 --max-iter 0 --json")
    assert code == 3
    assert json.loads(out)["certificate"]["status"] == "iteration limit"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("tag missing --columns word,tag", "cannot read missing"),
        ("tag train.conll --columns word,tag", "columns word, tag, got 3 fields"),
        ("tag new.conll --columns word,pos,tag", "got 2 fields"),
        (f"{TRAIN} --target x", "target must be one of"),
        (f"{TRAIN} --constraints OIB", "--constraints must be one of auto, BIO, BIOES, none"),
        (f"{TRAIN} --constraints BIOES", "must obey the constraints"),
        (f"{TRAIN} --template word", "templates must be like"),
        (f"{TRAIN} --min-count 0", "min_count"),
        (f"{TRAIN} --lam -1", "lam must be"),
        (f"{TRAIN} -o train.conll", "would be overwritten"),
        (f"{TRAIN} -o no/folder", "there is no folder"),
        (f"{TRAIN} --test missing", "cannot read missing"),
        (f"{TRAIN} --test empty.conll", "empty.conll has no sentences"),
        ("tag empty.conll --columns word,pos,tag", "empty.conll has no sentences"),
        (f"{TRAIN} -o same --report same", "same would be written twice"),
    ],
)
def test_wrong_input_is_one_line(command, line, words, tmp_path):
    before = sorted(tmp_path.iterdir())
    code, _, err = command(line)
    assert code == 2
    assert words in err
    assert err.count("error: ") == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("evaluate m.cornerstep test.conll --target pos", "target"),
        ("evaluate m.cornerstep test.conll --top-k 2", "top-k"),
        ("predict m.cornerstep test.conll --scores", "scores"),
        ("predict m.cornerstep test.conll --sep ,", "sep"),
        ("certify m.cornerstep train.conll --stream", "stream"),
    ],
)
def test_options_of_tables_are_refused(command, line, option):
    assert command(f"{TRAIN} -o m.cornerstep")[0] == 0
    assert command(line) == (2, "", f"error: --{option} is not for taggers\n")


def test_nothing_is_measured_without_sentences(command):
    assert command(f"{TRAIN} -o m.cornerstep")[0] == 0
    code, out, err = command("evaluate m.cornerstep empty.conll")
    assert (code, out, err) == (2, "", "error: empty.conll has no sentences\n")
    assert command("predict m.cornerstep empty.conll") == (0, "", "")


def test_a_tagger_that_no_command_trained_has_no_columns(command):
    data = read_conll("train.conll", ["word", "pos", "tag"])
    tagger = cornerstep.SequenceTagger(["word[0]"], lam=0.1).fit(data.X, data.y)
    cornerstep.save(tagger, "m.cornerstep")
    for name in ("predict", "evaluate", "certify"):
        code, _, err = command(f"{name} m.cornerstep test.conll")
        assert code == 2
        assert "does not know the columns" in err
