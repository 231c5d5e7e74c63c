"""
Rules: a few trees that can be read
===================================

An ensemble of depth-1 or depth-2 trees is a list of rules with weights. What to take from it: how
to read ``estimators_``, how ``nu`` changes the list, and what that costs beside
gradient boosting.
"""

import numpy as np
from sklearn.datasets import load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from cornerstep import SoftMarginBoostingClassifier, certificate

data = load_wine(as_frame=False)
X, y = data.data, data.target == 1  # the second cultivar against the others
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)

# %%
# ``nu`` decides whose margins count: of the worst twentieth of the examples, or of more of them.

lists = {}
for nu in (0.05, 0.15, 0.3):
    clf = SoftMarginBoostingClassifier(nu=nu, max_depth=1).fit(X_train, y_train)
    lists[nu] = clf
    right = clf.score(X_test, y_test)
    print(f"nu = {nu:<4}  {len(clf.estimators_):3} rules, test accuracy {right:.3f}")
theirs = HistGradientBoostingClassifier(random_state=0).fit(X_train, y_train)
print(f"gradient boosting with {theirs.n_iter_} trees: {theirs.score(X_test, y_test):.3f}")

# %%
# The rules of the middle one, the heaviest first. A tree is a heap: ``features[0]`` and
# ``thresholds[0]`` are its root, ``x <= threshold`` goes to the left, and ``leaves`` hold -1 (no)
# or 1 (yes).

clf = lists[0.15]
print(certificate(clf).sentence)
order = np.argsort(-clf.estimator_weights_)
rules, weights = [], clf.estimator_weights_[order]
for j in order:
    tree = clf.estimators_[j]
    sign = "<=" if tree.leaves[0] > 0 else "> "
    name = data.feature_names[tree.features[0]]
    rules.append(f"{name} {sign} {tree.thresholds[0]:.4g}")
for rule, weight in zip(rules[:8], weights, strict=False):
    print(f"{weight:5.2f}  yes if {rule}")

try:
    import matplotlib.pyplot as plt
except ModuleNotFoundError:
    raise SystemExit("the picture needs matplotlib") from None

figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.2))
left.barh(rules[:8], weights[:8])
left.invert_yaxis()
left.set(title="the heaviest rules", xlabel="weight")
for nu, model in lists.items():
    right.plot(np.sort(model.margins_), np.linspace(0, 1, len(y_train)), label=f"nu = {nu}")
right.set(title="margins of the training examples", xlabel="margin", ylabel="share below")
right.legend()
plt.show()
