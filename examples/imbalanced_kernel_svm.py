"""
Imbalanced classes: a kernel machine that does not overlook the rare one
========================================================================

One example in fifteen belongs to the class that matters. What to take from it:
``class_weight="balanced"``, judging by balanced accuracy rather than accuracy, and that
:class:`cornerstep.ReducedHullSVC` is the machine of ``SVC``, proven.
"""

import numpy as np
from sklearn.datasets import make_moons
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from sklearn.svm import SVC

from cornerstep import ReducedHullSVC, certificate

rng = np.random.default_rng(0)


def draw(n):
    """Two moons; of the second one in fifteen is kept."""
    X, y = make_moons(2 * n, noise=0.3, random_state=int(rng.integers(1000)))
    kept = (y == 0) | (rng.random(2 * n) < 1 / 14)
    return X[kept], y[kept]


X, y = draw(700)
X_test, y_test = draw(4000)
print(f"{len(y)} training examples, {y.sum()} of them of the rare class")

# %%
# Equal weights serve the frequent class. Balanced weights count a rare example as many times as
# it takes.

models = {
    "plain": ReducedHullSVC(C=1.0).fit(X, y),
    "balanced": ReducedHullSVC(C=1.0, class_weight="balanced").fit(X, y),
}
print("             accuracy   balanced accuracy   rare ones found")
for name, clf in {"always 0": None, **models}.items():
    answer = np.zeros_like(y_test) if clf is None else clf.predict(X_test)
    found = np.mean(answer[y_test == 1] == 1)
    print(
        f"{name:12} {accuracy_score(y_test, answer):8.3f} "
        f"{balanced_accuracy_score(y_test, answer):19.3f} {found:17.3f}"
    )
for name, clf in models.items():
    print(f"{name}: {certificate(clf).sentence}")

# %%
# scikit-learn's machine is the same one, up to its tolerance.

theirs = SVC(C=1.0, class_weight="balanced", tol=1e-6).fit(X, y)
difference = np.abs(theirs.decision_function(X_test) - models["balanced"].decision_function(X_test))
print(f"decision values of SVC differ by {difference.max():.1e} at most")

try:
    import matplotlib.pyplot as plt
except ModuleNotFoundError:
    raise SystemExit("the picture needs matplotlib") from None

across, up = np.meshgrid(np.linspace(-1.8, 2.8, 120), np.linspace(-1.4, 1.9, 120))
grid = np.column_stack([across.ravel(), up.ravel()])
figure, ax = plt.subplots()
ax.scatter(*X[y == 0].T, s=5, alpha=0.6, color="C0", label="frequent")
ax.scatter(*X[y == 1].T, s=14, color="C1", label="rare")
for (name, clf), style in zip(models.items(), ("dotted", "solid"), strict=True):
    values = clf.decision_function(grid).reshape(across.shape)
    ax.contour(across, up, values, levels=[0.0], colors="C2", linestyles=style)
    ax.plot([], [], color="C2", linestyle=style, label=f"border, {name}")
ax.legend(loc="upper right", fontsize=8)
ax.set_title("two moons, one of them sparse")
plt.show()
