"""
Synthetic control: what would have happened without
===================================================

One region gets a new law; a weighted mean of other regions that moved alike before shows what would
have been. What to take from it: :func:`cornerstep.minimize` with
:class:`cornerstep.objectives.LeastSquares` over the :class:`cornerstep.domains.Simplex`, an answer
that is sparse, and a bound on how far it is from the best one; and :func:`cornerstep.minimize_many`
for placebo tests, the same question asked of regions that got no law.
"""

import numpy as np

from cornerstep import minimize, minimize_many
from cornerstep.domains import Simplex
from cornerstep.objectives import LeastSquares

# %%
# A hundred and forty regions over sixty months, driven by three common trends. The law comes in
# month 40 and lowers the outcome of the first region by 4; the next 39 are donors of its control.

rng = np.random.default_rng(0)
trends = np.cumsum(rng.standard_normal((60, 3)), axis=0)
mixtures = rng.dirichlet(np.ones(3), 140)
outcomes = 50 + 3 * trends @ mixtures.T + 0.5 * rng.standard_normal((60, 140))
law, effect = 40, -4.0
outcomes[law:, 0] += effect
treated, donors, others = outcomes[:, 0], outcomes[:, 1:40], outcomes[:, 40:]

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

# %%
# Is that effect more than chance? The other hundred regions got no law. Each gets a control from
# the same donors, and the gap after the law is divided by the misfit before it. Only if few of them
# have a ratio as large as the treated region is there evidence of an effect.

regions = np.column_stack([treated, others])
controls = minimize_many(
    LeastSquares(donors[:law], np.zeros(law)), Simplex(39), regions[:law].T, tol=1e-6
)
gaps = regions - donors @ controls.x.T
ratios = np.sqrt(np.mean(gaps[law:] ** 2, axis=0) / np.mean(gaps[:law] ** 2, axis=0))
as_large = int(np.sum(ratios >= ratios[0]))
print(f"{len(controls)} controls, all within {controls.gap.max():.1e} of the least possible one")
print(
    f"gap after over misfit before: {ratios[0]:.1f}; placebos: {np.median(ratios[1:]):.1f} (median)"
)
print(f"{as_large} of {len(controls)} have one as large: p = {as_large / len(controls):.3f}")

try:
    import matplotlib.pyplot as plt
except ModuleNotFoundError:
    raise SystemExit("the picture needs matplotlib") from None

figure, (ax, placebos) = plt.subplots(2, sharex=True, layout="constrained")
ax.plot(treated, label="the region")
ax.plot(donors @ result.x, label="its synthetic control")
ax.plot(donors @ free, lw=1, label="least squares")
ax.axvline(law, ls=":", color="C4")
ax.set(ylabel="outcome", title="the law comes in month 40")
ax.legend()
placebos.plot(gaps[:, 1:], color="0.8", lw=0.5)
placebos.plot(gaps[:, 0], color="C0")
placebos.axvline(law, ls=":", color="C4")
placebos.set(xlabel="month", ylabel="gap to the control", title="beside a hundred regions without")
plt.show()
