"""The solvers of soft-margin boosting, in the order in which to read them.

- ``solver``: what the optimiser's loop asks; a round, and its certificate.
- ``methods``: LPBoost, ERLPBoost, C-ERLPBoost and MLPBoost; ``settings``, their numbers.
- ``textbook``: the same as published; ``simplex``, their linear program.
- ``oracle``, ``pool``, ``ensembles``, ``run_state``: what a run knows.
- ``frank_wolfe``: the steps of C-ERLPBoost and MLPBoost.
- ``corrections``, ``master``: the best weights for the hypotheses at hand, round by round, by
  ``smoothed`` or ``interior``; ``restriction`` and ``solution``, what these share.
"""
