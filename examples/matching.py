"""
Matching: which point of one picture is which of the other
==========================================================

Two views of the same things, described by features of which only some can be trusted. What to take
from it: what :class:`cornerstep.structured.MatchingModel` wants (the features of every pair) and
that learnt weights beat plain distances.
"""

# %%
# Each thing has a place and six properties. In the second view places are moved a little, four
# properties are drawn anew, and the order is another one.

import numpy as np
from scipy.optimize import linear_sum_assignment

from cornerstep import StructuredSVC, certificate
from cornerstep.structured import MatchingModel

rng = np.random.default_rng(0)


def views(k=6):
    here = np.hstack([rng.random((k, 2)), rng.standard_normal((k, 6))])
    there = here + 0.15 * rng.standard_normal(here.shape)
    there[:, 4:] = rng.standard_normal((k, 4))  # what says nothing
    order = rng.permutation(k)
    answer = np.empty(k, dtype=int)
    answer[order] = np.arange(k)  # thing i of the first view is row answer[i] of the second
    return here, there[order], answer


def pairs(here, there):
    """(k, k, 8): minus the squared difference of each feature, for each pair."""
    return -((here[:, None, :] - there[None, :, :]) ** 2)


def draw(n):
    drawn = [views() for _ in range(n)]
    return drawn, [pairs(here, there) for here, there, _ in drawn], [a for _, _, a in drawn]


_, X, y = draw(40)
pictures, X_test, y_test = draw(100)

# %%
# Learn how much each feature counts. For comparison: the assignment of least total squared
# distance.

clf = StructuredSVC(MatchingModel(), C=10.0, random_state=0).fit(X, y)
plain = [linear_sum_assignment(-x.sum(axis=2))[1] for x in X_test]
answers = clf.predict(X_test)
print(f"rows matched rightly, plain distance  {np.mean(np.array(plain) == np.array(y_test)):.3f}")
print(f"rows matched rightly, learnt weights  {np.mean(np.array(answers) == np.array(y_test)):.3f}")
print("weights of the features:", np.round(clf.coef_, 1))
print(certificate(clf).sentence)

# %%
# The picture that is hardest for plain distances, with the matches of both: dotted where wrong.

try:
    import matplotlib.pyplot as plt
except ModuleNotFoundError:
    raise SystemExit("the picture needs matplotlib") from None

hard = int(np.argmin([np.sum(a == b) for a, b in zip(plain, y_test, strict=True)]))
here, there, truth = pictures[hard]
figure, axes = plt.subplots(1, 2, figsize=(7.6, 3.2), sharey=True)
for ax, name, match in zip(
    axes, ("plain distance", "learnt"), (plain[hard], answers[hard]), strict=True
):
    ax.scatter(*here[:, :2].T, color="C0", label="first view")
    ax.scatter(there[:, 0] + 1.5, there[:, 1], color="C1", label="second view")
    for i, j in enumerate(match):
        style = "-" if j == truth[i] else ":"
        ax.plot([here[i, 0], there[j, 0] + 1.5], [here[i, 1], there[j, 1]], style, color="C4", lw=1)
    ax.set_title(f"{name}: {np.sum(match == truth)} of 6 right")
    ax.set_xticks([])
axes[0].legend(fontsize=8)
plt.show()
