"""
Tagging: names in sentences
===========================

From words to BIO tags with a chain model. What to take from it: how feature dicts become matrices,
one per sentence, that neighbouring tags are decided together, and how to count whole names rather
than tags.
"""

# %%
# Sentences are made up from a few patterns. Names are of persons (PER) and places (LOC); some
# words are both ("Jordan"), and only the neighbours tell.

import numpy as np
from sklearn.feature_extraction import DictVectorizer

from cornerstep import MulticlassSVC, StructuredSVC, certificate
from cornerstep.structured import ChainModel

rng = np.random.default_rng(0)
FIRST = "Anna Boris Carla Jordan Paris Sydney Victoria Dylan".split()
LAST = "Meyer Okafor Lindt London Berg Rossi Stone".split()
PLACE = "Jordan Paris Sydney Victoria London Oslo Lima Stone".split()
PATTERNS = [
    "PERSON lives in PLACE", "in PLACE it rains", "PERSON met PERSON near PLACE",
    "the river of PLACE froze", "yesterday PERSON left", "we saw PERSON and PERSON",
    "PLACE lies south of PLACE", "PERSON wrote about PLACE and PLACE",
]  # fmt: skip


def sentence():
    words, tags = [], []
    for part in rng.choice(PATTERNS).split():
        if part == "PERSON":
            names = [rng.choice(FIRST), *([rng.choice(LAST)] if rng.random() < 0.7 else [])]
            words += names
            tags += ["B-PER", "I-PER"][: len(names)]
        elif part == "PLACE":
            names = ["New", rng.choice(PLACE)] if rng.random() < 0.3 else [rng.choice(PLACE)]
            words += names
            tags += ["B-LOC", "I-LOC"][: len(names)]
        else:
            words.append(part)
            tags.append("O")
    return words, tags


def features(words, i):
    """What is known of a word: itself, its form, and the word before it."""
    before = words[i - 1] if i else "^"
    return {"word": words[i], "capital": words[i][0].isupper(), "before": before}


sentences, tags = zip(*(sentence() for _ in range(400)), strict=True)
vectorizer = DictVectorizer().fit([features(s, i) for s in sentences[:200] for i in range(len(s))])
X = [vectorizer.transform([features(s, i) for i in range(len(s))]) for s in sentences]
X_train, y_train, X_test, y_test = X[:200], tags[:200], X[200:], tags[200:]

# %%
# The chain model, and for comparison each word by itself with the same features. The chain helps
# because these are few: with the word after as a feature too, both have an F1 of 0.987.

chain = StructuredSVC(ChainModel(), C=10.0, random_state=0).fit(X_train, y_train)
alone = MulticlassSVC(C=10.0, random_state=0)
alone.fit(vectorizer.transform([features(s, i) for s in sentences[:200] for i in range(len(s))]),
          np.concatenate(y_train))  # fmt: skip
print(certificate(chain).sentence)


def names_of(labels):
    """(start, end, kind) of every name in a row of tags."""
    found, start = set(), None
    for i, tag in enumerate([*labels, "O"]):
        if start is not None and tag != f"I-{labels[start][2:]}":
            found.add((start, i, labels[start][2:]))
            start = None
        if tag.startswith("B-"):
            start = i
    return found


def f1(answers):
    right = sum(len(names_of(a) & names_of(t)) for a, t in zip(answers, y_test, strict=True))
    total = sum(len(names_of(a)) + len(names_of(t)) for a, t in zip(answers, y_test, strict=True))
    return 2 * right / total


answers = [list(map(str, labels)) for labels in chain.predict(X_test)]
by_word = [list(map(str, alone.predict(words))) for words in X_test]
print(f"F1 of whole names, each word alone  {f1(by_word):.3f}")
print(f"F1 of whole names, as a chain       {f1(answers):.3f}")
wrong = next((i for i, t in enumerate(y_test) if by_word[i] != list(t) == answers[i]), 0)
print(*(f"{w}/{t}" for w, t in zip(sentences[200 + wrong], by_word[wrong], strict=True)), "(alone)")
print(*(f"{w}/{t}" for w, t in zip(sentences[200 + wrong], answers[wrong], strict=True)), "(chain)")

# %%
# What the chain has learnt of neighbours: a row for the tag before, a column for the tag after.

try:
    import matplotlib.pyplot as plt
except ModuleNotFoundError:
    raise SystemExit("the picture needs matplotlib") from None

transitions = chain.model_.split(chain.coef_)["transitions"]
labels = list(map(str, chain.known_labels()))
size = np.abs(transitions).max()
figure, ax = plt.subplots(figsize=(4.4, 3.4))
image = ax.imshow(transitions, cmap="PuOr", vmin=-size, vmax=size)
ax.set_xticks(range(len(labels)), labels, rotation=60, ha="right")
ax.set_yticks(range(len(labels)), labels)
ax.grid(False)
ax.set(title="weights of transitions", xlabel="tag", ylabel="tag before")
figure.colorbar(image)
plt.show()
