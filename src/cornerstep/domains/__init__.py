"""Domains: polytopes and balls known by their oracles.

Simplices and boxes, balls of norms, sets of matrices, of permutations and of flows, hulls, any
polytope, products and intersections.  :class:`Domain` says what one of your own needs,
:func:`check_domain` tries it.
"""

from cornerstep.domains.balanced import BalancedBox
from cornerstep.domains.balls import Ball, L1Ball, NuclearNormBall
from cornerstep.domains.base import Domain
from cornerstep.domains.birkhoff import Birkhoff
from cornerstep.domains.box import Box
from cornerstep.domains.checks import check_domain
from cornerstep.domains.facial import facial_constant, facial_distance
from cornerstep.domains.flows import FlowPolytope, PathPolytope, Transport
from cornerstep.domains.hull import ConvexHull
from cornerstep.domains.intersection import Intersection
from cornerstep.domains.norms import Ellipsoid, KSupportBall, LpBall, OWLBall
from cornerstep.domains.ordered import KSparsePolytope, Permutahedron
from cornerstep.domains.polytope import Polytope
from cornerstep.domains.product import Product
from cornerstep.domains.simplex import CappedSimplex, Simplex
from cornerstep.domains.spectraplex import Spectraplex

__all__ = [
    "BalancedBox",
    "Ball",
    "Birkhoff",
    "Box",
    "CappedSimplex",
    "ConvexHull",
    "Domain",
    "Ellipsoid",
    "FlowPolytope",
    "Intersection",
    "KSparsePolytope",
    "KSupportBall",
    "L1Ball",
    "LpBall",
    "NuclearNormBall",
    "OWLBall",
    "PathPolytope",
    "Permutahedron",
    "Polytope",
    "Product",
    "Simplex",
    "Spectraplex",
    "Transport",
    "check_domain",
    "facial_constant",
    "facial_distance",
]
