"""
A portfolio: least variance with a cap on each share
====================================================

How to spread money over shares with the least variance, none above a tenth. What to take from it:
``minimize`` with a quadratic over a capped simplex, a proof of how good the answer is, and how
methods of the same family compare.
"""

import numpy as np

from cornerstep import minimize
from cornerstep.domains import CappedSimplex
from cornerstep.objectives import Quadratic

# %%
# Two years of daily returns of 300 shares, made of eight common factors and noise of their own.

rng = np.random.default_rng(0)
loadings = rng.standard_normal((300, 8)) * 0.6 + 0.4
own = rng.uniform(0.5, 2.0, 300)
returns = rng.standard_normal((500, 8)) @ loadings.T + own * rng.standard_normal((500, 300))
covariance = np.cov(returns.T)

# %%
# The capped simplex: shares between 0 and a tenth that sum to 1.

shares = CappedSimplex(300, total=1.0, cap=0.1)
variance = Quadratic(covariance)
result = minimize(variance, shares, rtol=1e-8)
even = np.full(300, 1 / 300)
print(f"{result.status} in {result.n_iter} steps by {result.method!r}")
print(f"variance, even spread       {even @ covariance @ even:.5f}")
print(f"variance, least             {2 * result.value:.5f}")
print(f"no spread has less than     {2 * result.lower_bound:.5f}")
held = result.x > 1e-9
print(f"{held.sum()} shares are held, {np.sum(result.x > 0.1 - 1e-9)} of them at the cap")

# %%
# The variance of days to come, by the factors that made the days.

truth = loadings @ loadings.T + np.diag(own**2)
print(f"true variance, even spread  {even @ truth @ even:.5f}")
print(f"true variance, least        {result.x @ truth @ result.x:.5f}")

try:
    import matplotlib.pyplot as plt
except ModuleNotFoundError:
    raise SystemExit("the picture needs matplotlib") from None

figure, ax = plt.subplots()
for method in ("fw", "away", "pairwise", "di-pairwise"):
    run = minimize(variance, shares, method=method, rtol=1e-8, max_iter=500)
    run.trace.plot(ax, label=method)
ax.set_title("plain Frank-Wolfe and three that can undo a step")
plt.show()
