"""Sentences in columns: what is read, what is left out, what is complained about."""

import gzip

import pytest

from cornerstep.structured import read_conll
from cornerstep.structured.models.constraints import rule_of

COLUMNS = ["word", "pos", "tag"]
TEXT = "-DOCSTART- -X- O\n\nThe DT B-NP\ncat NN I-NP\n\n\n# NN B-NP\nmeows VBZ O"
X = [
    [{"word": "The", "pos": "DT"}, {"word": "cat", "pos": "NN"}],
    [{"word": "#", "pos": "NN"}, {"word": "meows", "pos": "VBZ"}],
]
Y = [["B-NP", "I-NP"], ["B-NP", "O"]]


@pytest.fixture
def file(tmp_path):
    def written(text, name="x.conll"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
        return path

    return written


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["x.conll", "x.txt.gz"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_sentences_end_at_empty_lines(file, newline, name, mark):
    found = read_conll(file(mark + TEXT.replace("\n", newline), name), COLUMNS)
    assert (found.X, found.y) == (X, Y)
    assert found.rows[1][1] == ["meows", "VBZ", "O"]


def test_comments_are_lines_before_a_sentence_with_other_fields(file):
    text = "# sent_id = 3\n# text = a longer one, of many words\n" + TEXT
    assert read_conll(file(text), COLUMNS).X == X


CONLL_U = [
    "1-2\tal\t_\t_\t_\t_\t_\t_\t_\t_", "1\ta\ta\tADP\t_\t_\t0\troot\t_\t_",
    "2\tel\tel\tDET\t_\t_\t1\tdet\t_\t_", "2.1\tx\tx\tVERB\t_\t_\t_\t_\t_\t_",
]  # fmt: skip


@pytest.mark.parametrize("words", range(12))
def test_of_conll_u_tokens_are_read_and_nothing_else(file, words):
    comment = " ".join(["# text =", *"a" * words])
    block = "\n".join([comment, *CONLL_U]) + "\n\n"
    columns = ["_", "word", "_", "pos", *"______"]
    found = read_conll(file(2 * block), columns, "pos")
    assert found.X == [[{"word": "a"}, {"word": "el"}]] * 2
    assert found.y == [["ADP", "DET"]] * 2
    scores = read_conll(file("2-1\tX\n1.5\tY\n"), ["word", "tag"])  # words like any others there
    assert scores.y == [["X", "Y"]]


@pytest.mark.parametrize("end", ["", " ", "  ", "\t", " \t"])
@pytest.mark.parametrize("separator", [" ", "\t", " \t "])
def test_blanks_at_ends_are_no_part_of_labels(file, separator, end):
    lines = [separator.join(fields) + end for fields in (("a\xa0b", "X"), ("c", "Y"))]
    found = read_conll(file("\n".join(lines)), ["word", "tag"])
    assert found.X == [[{"word": "a\xa0b"}, {"word": "c"}]]  # that space does not separate
    assert found.y == [["X", "Y"]]


def test_what_is_open_is_read(file):
    with open(file(TEXT), encoding="utf-8") as text:
        assert read_conll(text, COLUMNS).X == X


def test_damaged_archives_are_named(tmp_path):
    path = tmp_path / "x.gz"
    whole = gzip.compress(bytes(range(97, 120)) * 1000)
    for k in range(len(whole) - 8):
        path.write_bytes(whole[:k] + bytes([whole[k] ^ 255]) + whole[k + 1 :])
        with pytest.raises(ValueError, match=r"x\.gz must"):
            read_conll(path, COLUMNS)


def test_columns_may_be_left_out_and_the_label_be_anywhere(file):
    found = read_conll(file(TEXT), ["word", "tag", "_"], "word")
    assert found.X[0] == [{"tag": "DT"}, {"tag": "NN"}]
    assert found.y[0] == ["The", "cat"]


def test_fields_between_tabs_may_have_blanks(file):
    found = read_conll(file("New York\tNNP\tB-LOC\n"), COLUMNS)
    assert found.X == [[{"word": "New York", "pos": "NNP"}]]


def test_the_label_may_be_missing_where_none_is_needed(file):
    path = file("The DT\ncat NN\n")
    found = read_conll(path, COLUMNS, needs_labels=False)
    assert X[:1] == found.X
    assert found.y == [[]]
    with pytest.raises(ValueError, match="columns word, pos, tag, got 2 fields"):
        read_conll(path, COLUMNS)
    assert read_conll(file(TEXT), COLUMNS, needs_labels=False).y == Y


def test_a_file_without_sentences(file):
    assert read_conll(file("\n\n"), COLUMNS).X == []


@pytest.mark.parametrize(
    ("text", "columns", "target", "words"),
    [
        (TEXT, [], None, "^columns must be names"),
        (TEXT, ["word", "word", "tag"], None, "^columns must differ"),
        (TEXT, COLUMNS, "label", "^target must be one of"),
        (TEXT, ["tag"], None, "^target must be one of"),
        (TEXT, ["word", "tag"], None, "columns word, tag, got 3 fields"),
        ("a b c\nd e\n", COLUMNS, None, "must have 3 fields .* got 2 in line 2"),
        ("a\tb\tc\nd\t\tf\n", COLUMNS, None, "got an empty one in line 2"),
    ],
)
def test_what_does_not_fit_is_named(file, text, columns, target, words):
    with pytest.raises(ValueError, match=words):
        read_conll(file(text), columns, target)


def test_bytes_that_are_no_text_are_one_error(tmp_path):
    for name in ("x.conll", "x.gz"):
        path = tmp_path / name
        path.write_bytes(b"\x93\xff\x00abc")
        with pytest.raises(ValueError, match=r"must be text in UTF-8"):
            read_conll(path, COLUMNS)


@pytest.mark.parametrize(
    ("labelings", "rule"),
    [
        ([["B-X", "I-X", "O"], [], ["O", "B-X"]], "BIO"),
        ([["S-X", "O"], ["B-X", "E-X"]], "BIOES"),
        ([["S-X", "I-X"]], None),
        ([["O", "I-X"]], None),
        ([["O", "O"]], None),
        ([["noun", "verb"]], None),
        ([[]], None),
    ],
)
def test_the_strictest_rule_that_labels_obey(labelings, rule):
    assert rule_of(labelings) == rule
