"""
Dask: rows that stay on the workers
===================================

Train on arrays that are spread over a cluster. What to take from it: ``fit`` takes Dask arrays as
they are, rows never leave the workers, and the model is that of one machine, with the same
certificate.
"""

# %%
# Two workers in this process stand for a cluster; ``Client("scheduler:8786")`` would name a real
# one. The workers make their rows themselves: nothing large passes through the client.

import dask.array as da
import numpy as np
from distributed import Client

from cornerstep import MulticlassSVC, certificate

n, d, m, chunk = 20_000, 50, 10, 5_000
means = 0.5 * np.random.default_rng(0).standard_normal((m, d))


def labels(block_info=None):
    start, stop = block_info[None]["array-location"][0]
    return np.arange(start, stop) % m


def rows(block_info=None):
    start, stop = block_info[None]["array-location"][0]
    noise = np.random.default_rng(start).standard_normal((stop - start, d))
    return means[np.arange(start, stop) % m] + noise


sizes = (chunk,) * (n // chunk)
X = da.map_blocks(rows, chunks=(sizes, (d,)), dtype=float)
y = da.map_blocks(labels, chunks=(sizes,), dtype=int)

# %%
# Train on the workers; then on one machine, to compare.

with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None):
    spread = MulticlassSVC(C=0.01, tol=1e-3, random_state=0).fit(X, y)
    answers = spread.predict(X[:8]).compute()  # predictions of Dask arrays are Dask arrays
    X_here, y_here = X.compute(), y.compute()

alone = MulticlassSVC(C=0.01, tol=1e-3, random_state=0).fit(X_here, y_here)
print("first answers:", answers.tolist())
print(f"on the workers  {certificate(spread).sentence}")
print(f"one machine     {certificate(alone).sentence}")
print(f"objectives {spread.objective_:.4f} and {alone.objective_:.4f}")
moved = spread.trace_["bytes_moved"][-1]
print(f"{moved / 1e6:.2f} MB were moved; the rows have {X.nbytes / 1e6:.0f} MB")

try:
    import matplotlib.pyplot as plt
except ModuleNotFoundError:
    raise SystemExit("the picture needs matplotlib") from None

ax = spread.trace_.plot(label="two workers")
alone.trace_.plot(ax, label="one machine")
ax.set(xlabel="rounds", title="the same certificate, a few rounds more")
plt.show()
