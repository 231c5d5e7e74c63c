"""
Multi-label: tags that come together
====================================

Each example may have any number of tags, and some tags go together. What to take from it: the edges
of :class:`cornerstep.structured.MultilabelModel` decide which pairs are scored. Here they get more
whole sets right than the same model without them, and no more than plain classifiers, one a tag:
compare before you take the larger model.
"""

# %%
# Eight tags in four pairs: the second of a pair nearly always comes with the first, but can hardly
# be seen by itself.

import numpy as np
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from cornerstep import StructuredSVC, certificate
from cornerstep.structured import MultilabelModel

rng = np.random.default_rng(0)
directions = rng.standard_normal((8, 12))
directions[1::2] *= 0.2  # the second of each pair is faint


def draw(n):
    first = rng.random((n, 4)) < 0.4
    second = first ^ (rng.random((n, 4)) < 0.05)
    Y = np.stack([first, second], axis=2).reshape(n, 8).astype(int)
    return (2 * Y - 1) @ directions + 1.5 * rng.standard_normal((n, 12)), Y


X, Y = draw(200)
X_held, Y_held = draw(200)
X_test, Y_test = draw(400)

# %%
# Without edges the tags are decided apart, as by one classifier for each. With edges pairs are
# decided together: those that are given, or a tree of those that the data show.


def best(make, Cs):
    """Of some C the one with most sets right on examples held out: the same rule for all."""
    fitted = [make(C).fit(X, Y) for C in Cs]
    right = [np.mean((np.array(clf.predict(X_held)) == Y_held).all(axis=1)) for clf in fitted]
    return fitted[int(np.argmax(right))]


def structured(pairs):
    return lambda C: StructuredSVC(MultilabelModel(pairs), C=C, random_state=0)


edges = {"no edges": None, "four pairs": np.arange(8).reshape(4, 2), "a tree": "tree"}
models = {name: best(structured(pairs), (0.01, 0.03, 0.1)) for name, pairs in edges.items()}
one_each = best(lambda C: OneVsRestClassifier(LinearSVC(C=C)), (0.001, 0.01, 0.1))
answers = {
    name: np.array(clf.predict(X_test))
    for name, clf in {"one LinearSVC a tag": one_each, **models}.items()
}

print("                       tags wrong   whole set right")
for name, answer in answers.items():
    wrong, whole = np.mean(answer != Y_test), np.mean((answer == Y_test).all(axis=1))
    print(f"{name:22} {wrong:10.3f} {whole:17.3f}")
for name, clf in models.items():
    print(f"{name}: {certificate(clf).sentence}")
print("pairs of the tree:", models["a tree"].model_.edges_.tolist())

# %%
# How the tags hang together in the data, and in what two of the models answer.

try:
    import matplotlib.pyplot as plt
except ModuleNotFoundError:
    raise SystemExit("the picture needs matplotlib") from None

figure, axes = plt.subplots(1, 3, figsize=(8.4, 2.8))
tables = {"test data": Y_test, "no edges": answers["no edges"], "a tree": answers["a tree"]}
for ax, (name, table) in zip(axes, tables.items(), strict=True):
    image = ax.imshow(np.corrcoef(table.T), cmap="PuOr", vmin=-1, vmax=1)
    ax.grid(False)
    ax.set(title=name, xlabel="tag")
figure.colorbar(image, ax=axes, label="correlation of tags")
plt.show()
