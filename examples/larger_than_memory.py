"""
Larger than memory: rows that stay on disk
==========================================

Train on a file that is read in blocks. What to take from it: a memory-mapped array is enough, the
certificate is that of all rows, and a checkpoint lets a run go on another day.
"""

# %%
# The file is small here, so that the example takes seconds; nothing changes with its size. It is
# written in parts, as a larger one would be.

import tempfile
from pathlib import Path

import numpy as np
from sklearn.linear_model import SGDClassifier

from cornerstep import MulticlassSVC, certificate

folder = tempfile.TemporaryDirectory()
path = Path(folder.name, "rows.npy")
n, d, m = 40_000, 100, 20
rng = np.random.default_rng(0)
means = 0.45 * rng.standard_normal((m, d))
y = rng.integers(m, size=n)
file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, d))
for start in range(0, n, 10_000):
    part = slice(start, start + 10_000)
    file[part] = means[y[part]] + rng.standard_normal((10_000, d))
file.flush()
del file
print(f"{path.stat().st_size / 1e6:.0f} MB on disk")

# %%
# ``mmap_mode="r"`` is all it takes. With ``checkpoint`` the state is written every minute, and a
# second ``fit`` goes on from it.

X = np.load(path, mmap_mode="r")
X_test = means[y[:2000]] + rng.standard_normal((2000, d))
state = Path(folder.name, "state.npz")
clf = MulticlassSVC(C=0.01, tol=1e-3, checkpoint=state, random_state=0).fit(X, y)
print(f"{len(clf.trace_) - 1} passes over the file, accuracy {clf.score(X_test, y[:2000]):.3f}")
print(certificate(clf).sentence)

# %%
# A stochastic method sees the same blocks. It cannot say how far it is from the best model.

sgd = SGDClassifier(random_state=0)
for _ in range(3):
    for start in range(0, n, 10_000):
        part = slice(start, start + 10_000)
        sgd.partial_fit(X[part], y[part], classes=np.arange(m))
print(f"SGDClassifier after 3 passes, accuracy {sgd.score(X_test, y[:2000]):.3f}")

try:
    import matplotlib.pyplot as plt
except ModuleNotFoundError:
    raise SystemExit("the picture needs matplotlib") from None

ax = clf.trace_.plot()
ax.axhline(1e-3 * clf.objective_, ls=":", color="C4", label="asked for")
ax.set(xlabel="passes over the file", title="the gap is proven for all rows")
ax.legend()
plt.show()
folder.cleanup()
