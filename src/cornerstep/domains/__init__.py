"""Domains: polytopes and balls known by their oracles.

``Simplex``, ``CappedSimplex``, ``Box``, ``BalancedBox``, ``L1Ball``, ``Birkhoff``, ``ConvexHull``,
``Polytope``, ``Ball``, ``NuclearNormBall`` and ``Product``.  :class:`Domain` says what one of your
own needs, :func:`check_domain` tries it.
"""

from cornerstep.domains.balanced import BalancedBox
from cornerstep.domains.balls import Ball, L1Ball, NuclearNormBall
from cornerstep.domains.base import Domain
from cornerstep.domains.birkhoff import Birkhoff
from cornerstep.domains.box import Box
from cornerstep.domains.checks import check_domain
from cornerstep.domains.facial import facial_constant, facial_distance
from cornerstep.domains.hull import ConvexHull
from cornerstep.domains.polytope import Polytope
from cornerstep.domains.product import Product
from cornerstep.domains.simplex import CappedSimplex, Simplex

__all__ = [
    "BalancedBox",
    "Ball",
    "Birkhoff",
    "Box",
    "CappedSimplex",
    "ConvexHull",
    "Domain",
    "L1Ball",
    "NuclearNormBall",
    "Polytope",
    "Product",
    "Simplex",
    "check_domain",
    "facial_constant",
    "facial_distance",
]
