"""The optimiser: one loop, direction rules, step rules, and results with a certificate."""

from cornerstep.optimiser.active_set import ActiveSet
from cornerstep.optimiser.block import Block
from cornerstep.optimiser.in_face import AwaySchedule, InFaceAway, InFacePairwise, PairwiseSchedule
from cornerstep.optimiser.interior import Interior
from cornerstep.optimiser.loop import Iterate
from cornerstep.optimiser.many import ManyResults, minimize_many
from cornerstep.optimiser.methods import (
    Away,
    BlendedPairwise,
    FrankWolfe,
    FullyCorrective,
    Pairwise,
    RandomizedAway,
)
from cornerstep.optimiser.minimize import minimize
from cornerstep.optimiser.projected_cg import ProjectedCG
from cornerstep.optimiser.result import Result, Status, Trace
from cornerstep.optimiser.solver import Method, Proposal
from cornerstep.optimiser.steps import Backtracking, Exact, OpenLoop, Short

__all__ = [
    "ActiveSet",
    "Away",
    "AwaySchedule",
    "Backtracking",
    "BlendedPairwise",
    "Block",
    "Exact",
    "FrankWolfe",
    "FullyCorrective",
    "InFaceAway",
    "InFacePairwise",
    "Interior",
    "Iterate",
    "ManyResults",
    "Method",
    "OpenLoop",
    "Pairwise",
    "PairwiseSchedule",
    "ProjectedCG",
    "Proposal",
    "RandomizedAway",
    "Result",
    "Short",
    "Status",
    "Trace",
    "minimize",
    "minimize_many",
]
