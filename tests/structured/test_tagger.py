"""The tagger: features by hand, the problem of a structured SVM, errors that name the token."""

import copy
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_extraction import DictVectorizer

from cornerstep import SequenceTagger, StructuredSVC, certificate, certify, load, report, save
from cornerstep.structured import ChainModel, entities, entity_scores, tokens
from cornerstep.structured.templates import template_features

WORDS = ["the", "cat", "sat", "on", "a|b", "mat\\", "Oslo"]


def sentences(n=14, seed=0, longest=6):
    """Names follow 'the' and 'Oslo'; every fifth sentence is empty."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for i in range(n):
        words = rng.choice(WORDS, 0 if i % 5 == 4 else int(rng.integers(1, longest + 1))).tolist()
        labels, inside = [], False
        for word in words:
            labels.append("I-X" if inside and word == "cat" else "B-X" if word == "Oslo" else "O")
            inside = labels[-1] != "O"
        X.append([{"word": w, "up": w.istitle(), "n": len(w), "ends": [w[-1], w[-2:]]}
                  for w in words])  # fmt: skip
        y.append(labels)
    return X, y


X, Y = sentences()
TEMPLATES = ["word[-2..1]", "word[-1..1]*2", "word[0]|up[-1]"]


@pytest.fixture(scope="module")
def tagger():
    return SequenceTagger(TEMPLATES, constraints="BIO", lam=0.02, random_state=0).fit(X, Y)


def by_hand(words, t):
    """The features of token t that the templates word[-1..1], *2 and word[0]|word[-2] stand for."""

    def at(*offsets):
        inside = [0 <= t + k < len(words) for k in offsets]
        where = "|".join(
            f"word[{k}]" + ("" if is_in else "^") for k, is_in in zip(offsets, inside, strict=True)
        )
        values = "|".join(
            words[t + k].replace("\\", "\\\\").replace("|", "\\|")
            for k, is_in in zip(offsets, inside, strict=True) if is_in
        )  # fmt: skip
        return f"{where}={values}" if any(inside) else where

    return {at(-1), at(0), at(1), at(-1, 0), at(0, 1), at(0, -2)}


def test_what_a_word_is_made_of():
    """Prefixes, suffixes, cases and shapes are as if the tokens had them."""
    words = ["McDonald's", "1990-91", "the", "IBM", ""]
    made = [{
        "word.lower": w.lower(), "word.prefix2": w[:2], "word.suffix3": w[-3:],
        "word.shape": shape,
    } for w, shape in zip(words, ["XxXx'x", "d-d", "x", "X", ""], strict=True)]  # fmt: skip
    templates = ["word.lower[0]", "word.prefix2[-1..1]", "word.suffix3[0]|word.shape[-1]"]
    ours, names = tokens.named_features([[{"word": w} for w in words]], tokens.DICTS, templates)
    theirs, expected = tokens.named_features([made], tokens.DICTS, templates)
    assert names == expected
    np.testing.assert_array_equal(ours.toarray(), theirs.toarray())
    own = [[{"word": w, "word.shape": "mine"} for w in words]]
    assert tokens.named_features(own, tokens.DICTS, ["word.shape[0]"])[1] == ["word.shape[0]=mine"]
    for name in ("word.prefix", "word.prefix0", "word.lower2", "word.size"):
        with pytest.raises(ValueError, match=f"X\\[0\\] must have '{name}', which templates name"):
            tokens.named_features([[{"word": w} for w in words]], tokens.DICTS, [f"{name}[0]"])


def test_templates_are_what_they_say():
    words = [[token["word"] for token in sentence] for sentence in X]
    ptr = np.concatenate([[0], np.cumsum([len(s) for s in words])])
    rows, names = template_features(
        {"word": [w for s in words for w in s]}, ptr,
        ["word[-1..1]", "word[-1..1]*2", "word[0]|word[-2]", "word[0]"],
    )  # fmt: skip
    tokens = [by_hand(s, t) for s in words for t in range(len(s))]
    assert set(names) == set().union(*tokens)
    assert len(names) == len(set(names))
    for row, token in zip(rows.toarray(), tokens, strict=True):
        assert {names[k] for k in np.flatnonzero(row)} == token
        assert row.sum() == 6


def test_it_is_the_structured_svm_on_the_same_features():
    plain = SequenceTagger(lam=0.02, random_state=0).fit(X, Y)
    kept = [i for i, s in enumerate(X) if s]
    tokens = [token for i in kept for token in X[i]]
    rows = sp.csr_array(DictVectorizer(sort=False).fit_transform(tokens))
    ends = np.cumsum([0] + [len(X[i]) for i in kept])
    share = np.full(len(tokens), len(kept) / len(tokens))
    chains = [(rows[a:b], share[a:b]) for a, b in pairwise(ends)]
    model = ChainModel(biases=True, normalize=False)
    svm = StructuredSVC(model, lam=0.02, random_state=0).fit(chains, [Y[i] for i in kept])
    np.testing.assert_allclose(plain.coef_, svm.coef_, atol=1e-12)
    assert plain.objective_ == pytest.approx(svm.objective_, abs=1e-12)
    weights = plain.state_features_
    best = sorted((value for (_, label), value in weights.items() if label == "B-X"), reverse=True)
    assert [value for _, value in plain.top_features("B-X", 3)] == best[:3]
    assert all(weights[name, "B-X"] == value for name, value in plain.top_features("B-X", 3))
    for token in ({"a": 1}, {"b": True}):  # other features, or none
        assert plain.predict([[token]]) == [[svm.predict([(np.zeros((1, rows.shape[1])))])[0][0]]]


def test_ways_to_give_the_same_features_give_the_same_model():
    dicts = [[{token["word"]: 1.0} for token in s] for s in X]
    strings = [[[token["word"]] for token in s] for s in X]
    names = sorted(set(WORDS))
    dense = [
        np.array([[name in token for name in names] for token in s], float).reshape(-1, len(names))
        for s in dicts
    ]
    sparse = [sp.csr_matrix(s) for s in dense]
    ways: tuple[Any, ...] = (dicts, strings, dense, sparse)
    fitted = [SequenceTagger(lam=0.05, random_state=0).fit(data, Y) for data in ways]
    fitted.append(SequenceTagger(hashing=2**12, lam=0.05, random_state=0).fit(strings, Y))
    for one in fitted[1:]:
        assert one.objective_ == pytest.approx(fitted[0].objective_, abs=1e-9)
    assert fitted[2].predict(dense) == fitted[4].predict(strings) == fitted[0].predict(dicts)


def test_features_of_few_tokens_are_left_out():
    strings = [[[token["word"], f"only here {i}, {t}"] for t, token in enumerate(s)]
               for i, s in enumerate(X)]  # fmt: skip
    clf = SequenceTagger(min_count=2, lam=0.05, random_state=0).fit(strings, Y)
    assert set(clf.feature_names_in_) == set(WORDS)


def test_answers_obey_and_empty_sentences_have_none(tagger):
    answers = tagger.predict(X)
    assert answers == Y
    assert [type(label) for label in answers[0]] == [str] * len(answers[0])
    assert tagger.predict([[]]) == tagger.predict_marginals([[]]) == tagger.predict_n_best([[]])
    assert tagger.predict([]) == []
    best = tagger.predict_n_best(X, 3)
    assert [each[0][0] if each else [] for each in best] == answers
    for labels in (labels for each in best for labels, _ in each):
        assert "I-X" not in labels[:1]
    for sentence in tagger.predict_marginals(X):
        for token in sentence:
            assert list(token) == ["B-X", "I-X", "O"]
            assert sum(token.values()) == pytest.approx(1)
    assert ("O", "I-X") not in tagger.transition_features_
    assert len(tagger.transition_features_) == 8
    assert tagger.score(X, Y) == tagger.score_entities(X, Y).all.f1 == 1


def test_certificates_files_and_reports(tagger, tmp_path):
    assert certificate(tagger).gap == tagger.gap_ <= 0.01
    assert certify(tagger, X, Y).holds
    save(tagger, tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.predict(X) == tagger.predict(X)
    assert again.state_features_ == tagger.state_features_
    assert certify(again, X, Y).holds
    report(again, X, Y, path=tmp_path / "r.html")
    assert "word[0]=Oslo" in (tmp_path / "r.html").read_text("utf-8")
    fewer = copy.copy(again)
    fewer.vocabulary_ = copy.copy(again.vocabulary_)
    fewer.vocabulary_.names = again.vocabulary_.names[::-1]
    assert "vocabulary_ is not what the data make" in certify(fewer, X, Y).problems
    again.coef_ = again.coef_ * 1.1
    assert not certify(again, X, Y).holds
    clone(tagger)


def test_weights_are_repetitions():
    counts = np.arange(len(X)) % 3
    take = np.repeat(np.arange(len(X)), counts)
    weighed = SequenceTagger(lam=0.05, atol=1e-4, random_state=0).fit(X, Y, counts)
    repeated = SequenceTagger(lam=0.05, atol=1e-4, random_state=0).fit(
        [X[i] for i in take], [Y[i] for i in take]
    )
    assert weighed.bound_ <= repeated.objective_ + 1e-12
    assert repeated.bound_ <= weighed.objective_ + 1e-12
    assert certify(weighed, X, Y, counts).holds


def test_the_path_takes_the_lambda_that_finds_most():
    data, labels = sentences(60)
    clf = SequenceTagger(["word[-1..0]"], random_state=0).fit(data, labels)
    assert len(clf.path_) == 3
    assert all(0 <= point.objective - point.bound <= 0.01 + 1e-12 for point in clf.path_)
    best = max(clf.path_, key=lambda point: point.score)
    middle = next(point for point in clf.path_ if point.factor == 1.0)
    few = SequenceTagger(["word[-1..0]"], random_state=0).fit(data[:9], labels[:9])
    assert few.path_ == []
    assert best.lam / middle.lam == pytest.approx(best.factor)
    assert certify(clf, data, labels).holds
    other = SequenceTagger(["word[-1..0]"], lam=clf.lam_, random_state=0).fit(data, labels)
    np.testing.assert_array_equal(other.coef_, clf.coef_)


def test_a_limit_ends_the_path_as_well():
    data, labels = sentences(60)
    clf = SequenceTagger(atol=1e-12, time_limit=1e-3, random_state=0).fit(data, labels)
    assert clf.status_.value == "time limit"
    assert clf.bound_ <= clf.objective_


DICT = [[{"a": 1}, {"a": 2}]]


@pytest.mark.parametrize(
    ("data", "labels", "options", "message"),
    [
        (DICT, [["O"]], {}, r"y\[0\] must have a label for each of the 2 tokens of X\[0\], got 1"),
        (DICT, [["O", 3]], {}, r"y\[0\] must be strings, or None where unknown, got 3 at token 1"),
        (DICT, [["O", "O"], ["O"]], {}, "as many sentences, got 1 and 2"),
        ([[], DICT[0]], [[], ["O", "I-a"]], {"constraints": "BIO"}, r"y\[1\] at token 1 .* 'I-a'"),
        ([[], [{"a": 1}, {"a": np.nan}]], [[], ["O", "O"]], {}, r"X\[1\] .* got nan at token 1"),
        ([[{"a": 1}, {"a": {}}]], [["O", "O"]], {}, r"X\[0\] .* got 'a': \{\} at token 1"),
        ([[{"a": 1}, {1: 5}]], [["O", "O"]], {}, r"X\[0\] .* names, got 1 at token 1"),
        ([[{"a": 1}, ["x"]]], [["O", "O"]], {}, r"X\[0\] must have a dict .* at token 1"),
        ([["the", "cat"]], [["O", "O"]], {}, r"X\[0\] must have a list of strings .*'the' at tok"),
        ([[["a"], [1]]], [["O", "O"]], {}, r"X\[0\] .* strings, got 1 at token 1"),
        (DICT, [["O", "O"]], {"templates": ["word[0]"]}, r"X\[0\] must have 'word'.* token 0"),
        (DICT, [["O", "O"]], {"templates": ["word"]}, r"like 'word\[-2..2\]', .* got 'word'"),
        (DICT, [["O", "O"]], {"templates": ["w[0..1]*3"]}, r"got 'w\[0\.\.1\]\*3'"),
        (DICT, [["O", "O"]], {"min_count": 3}, "no feature that min_count=3 tokens have"),
        ([np.ones((2, 1)), np.ones((1, 2))], [["O"] * 2, ["O"]], {}, r"X\[1\] must have 1 feat"),
        ([[]], [[]], {}, "at least one sentence that is not empty"),
        ("the cat", [["O"]], {}, "X must be a list with an entry per sentence"),
        (DICT, [["O", "O"]], {"lam": 0}, "lam must be a positive number or 'auto', got 0"),
        (DICT, [["O", "O"]], {"hashing": 0}, "hashing must be None or"),
    ],
)
def test_bad_input_is_one_clear_error(data, labels, options, message):
    clf = SequenceTagger(**options)
    with pytest.raises(ValueError, match=message):
        clf.fit(data, labels)
    assert not hasattr(clf, "coef_")


def test_bad_questions_are_clear_errors(tagger):
    with pytest.raises(ValueError, match="n must be an integer >= 1, got 0"):
        tagger.predict_n_best(X, 0)
    with pytest.raises(ValueError, match="label must be one of B-X, I-X, O, got 'x'"):
        tagger.top_features("x")
    with pytest.raises(ValueError, match=r"X\[1\] must have 'word'"):
        tagger.predict([X[0], [{}]])


# ---------------------------------------------------------------- entities


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("O B-a I-a O", [("a", 1, 3)]),
        ("I-a I-a B-a", [("a", 0, 2), ("a", 2, 3)]),
        ("B-a I-b I-b", [("a", 0, 1), ("b", 1, 3)]),
        ("B-a E-a E-a S-b I-b", [("a", 0, 2), ("a", 2, 3), ("b", 3, 4), ("b", 4, 5)]),
        ("B-x-y I-x-y", [("x-y", 0, 2)]),
        ("", []),
    ],
)
def test_entities_by_hand(labels, expected):
    assert entities(labels.split()) == expected


def test_scores_of_entities_by_hand():
    truth = [["B-a", "I-a", "O", "B-b"], ["B-a"]]
    scores = entity_scores(truth, [["B-a", "O", "O", "B-b"], ["B-a"]])
    assert scores.all == (2, 3, 3)
    assert scores.types == {"a": (1, 2, 2), "b": (1, 1, 1)}
    assert (scores.types["a"].precision, scores.types["a"].recall) == (0.5, 0.5)
    assert str(scores).splitlines()[-1].split() == ["all", "0.6667", "0.6667", "0.6667", "3"]
    assert entity_scores([["O"]], [["O"]]).all.f1 == 0
    with pytest.raises(ValueError, match=r"y_pred\[0\] must have a label for each of the 1"):
        entity_scores([["O"]], [["O", "O"]])
    with pytest.raises(ValueError, match="got 'NP' at token 0"):
        entities(["NP"])


def test_a_model_without_its_words_is_refused():
    X, y = [[{"word": "a"}, {"word": "b"}]] * 4, [["N", "V"]] * 4
    tagger = SequenceTagger(hashing=8, random_state=0).fit(X, y)
    tagger.complete()
    tagger.hashing = None  # as an edited file may say
    with pytest.raises(ValueError, match="vocabulary_ is missing"):
        tagger.complete()


def test_a_report_shows_sentences_with_their_errors(tagger):
    """The worst first, wrong tokens with both labels, all words escaped; entities in a table."""
    y = copy.deepcopy(Y)
    X_ = copy.deepcopy(X)
    X_[0][0]["word"] = "<i>"
    answers = tagger.predict(X_)
    y = [[*labels] for labels in answers]
    y[0][0] = "B-X" if answers[0][0] == "O" else "O"
    page = report(tagger, X_, y)
    assert page.count('<p class="sentence">') == 1
    assert f"<ruby>&lt;i&gt;<rt>{y[0][0]} → {answers[0][0]}</rt></ruby>" in page
    assert "Sentences with errors" in page
    right = report(tagger, X, tagger.predict(X))
    assert "Sentences with errors" not in right
    assert '<th scope="row">all</th><td>1.0000</td>' in right
    rows = [sp.csr_array(np.eye(3)[: len(labels)]) for labels in Y if 0 < len(labels) <= 3]
    short = [labels for labels in Y if 0 < len(labels) <= 3]
    plain = SequenceTagger(lam=0.1).fit(rows, short)  # no words to show
    page = report(plain, rows, short)
    assert "Sentences with errors" not in page
