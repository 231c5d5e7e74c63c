"""
Tagging: names in sentences
===========================

From words to BIO tags with a chain model. What to take from it: how to give sentences and their
neighbours' features, that neighbouring tags are decided together and obey rules, and how to count
whole names rather than tags.
"""

# %%
# Sentences are made up from a few patterns. Names are of persons (PER) and places (LOC); some
# words are both ("Jordan"), and only the neighbours tell.

import numpy as np
from sklearn.feature_extraction import DictVectorizer

from cornerstep import MulticlassSVC, SequenceTagger, certificate
from cornerstep.structured import entity_scores

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


sentences, tags = map(list, zip(*(sentence() for _ in range(400)), strict=True))
X = [[{"word": word, "capital": word[0].isupper()} for word in words] for words in sentences]
X_train, y_train, X_test, y_test = X[:200], tags[:200], X[200:], tags[200:]

# %%
# What is known of a word: itself and the word before it, by a template, and its form. Constraints
# forbid what BIO tags cannot mean, an I-LOC after O for one. For comparison each word by itself,
# with the same features.

chain = SequenceTagger(["word[-1..0]"], constraints="BIO", random_state=0).fit(X_train, y_train)
print(certificate(chain).sentence)


def alone_with(words, i):
    """The same features for a classifier of single words."""
    before = words[i - 1]["word"] if i else "^"
    return {**words[i], "before": before}


vectorizer = DictVectorizer()
rows = vectorizer.fit_transform([alone_with(s, i) for s in X_train for i in range(len(s))])
alone = MulticlassSVC(C=10.0, random_state=0).fit(rows, np.concatenate(y_train))
by_word = [
    alone.predict(vectorizer.transform([alone_with(s, i) for i in range(len(s))])).tolist()
    for s in X_test
]
answers = chain.predict(X_test)
print(f"F1 of whole names, each word alone  {entity_scores(y_test, by_word).all.f1:.3f}")
print(f"F1 of whole names, as a chain       {entity_scores(y_test, answers).all.f1:.3f}")
print(entity_scores(y_test, answers))
wrong = next((i for i, t in enumerate(y_test) if by_word[i] != t == answers[i]), 0)
print(*(f"{w}/{t}" for w, t in zip(sentences[200 + wrong], by_word[wrong], strict=True)), "(alone)")
print(*(f"{w}/{t}" for w, t in zip(sentences[200 + wrong], answers[wrong], strict=True)), "(chain)")

# %%
# What the chain has learnt of neighbours: a row for the tag before, a column for the tag after.
# What is forbidden has no weight.

try:
    import matplotlib.pyplot as plt
except ModuleNotFoundError:
    raise SystemExit("the picture needs matplotlib") from None

labels = chain.classes_.tolist()
weights = chain.transition_features_
transitions = np.array([[weights.get((a, b), np.nan) for b in labels] for a in labels])
size = np.nanmax(np.abs(transitions))
figure, ax = plt.subplots(figsize=(4.4, 3.4))
image = ax.imshow(transitions, cmap="PuOr", vmin=-size, vmax=size)
ax.set_xticks(range(len(labels)), labels, rotation=60, ha="right")
ax.set_yticks(range(len(labels)), labels)
ax.grid(False)
ax.set(title="weights of transitions", xlabel="tag", ylabel="tag before")
figure.colorbar(image)
plt.show()
