"""What trainers of all machines have in common: ``train(problem, settings) -> Training``.

Each of the learning problems has a module ``training`` with a function of this name and signature,
with ``Settings`` and ``Training`` of its own that add to those here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cornerstep.learning.certificates import MachineProof
from cornerstep.optimiser.loop import Callback, Outcome, Stopping


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to train one machine: what the parameters of its estimator say.

    Attributes
    ----------
    solver : str
    stopping : Stopping
    rng : numpy Generator
    callback : function, optional
        Called with an :class:`~cornerstep.optimiser.Iterate`; training stops if it returns True.
    verbose : {0, 1, 2}
    title : str
        Above the lines that ``verbose`` prints.
    start : optional
        Where to start: what an earlier training of the same kind has left.
    """

    solver: str
    stopping: Stopping
    rng: np.random.Generator
    callback: Callback | None = None
    verbose: int = 0
    title: str = ""
    start: Any = None


@dataclass(frozen=True, kw_only=True)
class Training:
    """A trained machine.

    Attributes
    ----------
    proof : MachineProof
        What is proven of it.
    """

    proof: MachineProof


def proof_of(outcome: Outcome) -> MachineProof:
    """What a run has proven of the point that it returns.

    The bound is that of the last look, not the best seen on the way: some looks read rounded data.
    """
    look = outcome.look
    bound = look.value - look.gap if math.isnan(look.bound) else look.bound
    return MachineProof(look.value, bound, look.gap, outcome.status, outcome.n_iter, outcome.trace)
