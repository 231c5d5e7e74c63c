"""
Synthetic control: what would have happened without
===================================================

One region gets a new law; a weighted mean of other regions that moved alike before shows what would
have been. What to take from it: :func:`cornerstep.minimize` with
:class:`cornerstep.objectives.LeastSquares` over the :class:`cornerstep.domains.Simplex`, an answer
that is sparse, and a bound on how far it is from the best one.
"""

import numpy as np

from cornerstep import minimize
from cornerstep.domains import Simplex
from cornerstep.objectives import LeastSquares

# %%
# Forty regions over sixty months, driven by three common trends. The law comes in month 40 and
# lowers the outcome of the first region by 4.

rng = np.random.default_rng(0)
trends = np.cumsum(rng.standard_normal((60, 3)), axis=0)
mixtures = rng.dirichlet(np.ones(3), 40)
outcomes = 50 + 3 * trends @ mixtures.T + 0.5 * rng.standard_normal((60, 40))
law, effect = 40, -4.0
outcomes[law:, 0] += effect
treated, donors = outcomes[:, 0], outcomes[:, 1:]

# %%
# Weights that are not negative and sum to 1, fitted before the law. The plain least-squares fit
# has 39 free numbers for 40 months: it fits the past perfectly, and says little of what comes.

result = minimize(LeastSquares(donors[:law], treated[:law]), Simplex(39), tol=1e-6)
free, *_ = np.linalg.lstsq(donors[:law], treated[:law])
print(f"{result.status}: the sum of squares is within {result.gap:.1e} of the least possible one")
print(f"{np.sum(result.x > 1e-3)} of 39 regions have weight")

estimates = {"simplex": result.x, "least squares": free, "mean of all": np.full(39, 1 / 39)}
print(f"true effect of the law {effect:.1f}; estimated after it:")
for name, weights in estimates.items():
    after = (treated - donors @ weights)[law:]
    before = (treated - donors @ weights)[:law]
    print(f"  {name:14} {after.mean():6.2f}   (misfit before: {np.sqrt(np.mean(before**2)):.2f})")

try:
    import matplotlib.pyplot as plt
except ModuleNotFoundError:
    raise SystemExit("the picture needs matplotlib") from None

figure, ax = plt.subplots()
ax.plot(treated, label="the region")
ax.plot(donors @ result.x, label="its synthetic control")
ax.plot(donors @ free, lw=1, label="least squares")
ax.axvline(law, ls=":", color="C4")
ax.set(xlabel="month", ylabel="outcome", title="the law comes in month 40")
ax.legend()
plt.show()
