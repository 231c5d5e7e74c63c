"""The protocol of certified estimators: what one says of itself to the rest of the library.

Certificates, verification, model files, reports, commands and ONNX graphs ask these methods, and
never which class they were given.  A subclass of an estimator inherits the answers; an estimator
of any other package gives its own:

============================  ====================================================================
``check_parameters``          complain about parameters
``certificate``               what is proven of the model
``machine_names``             what each of its machines decides
``recompute``                 the same numbers from the training data
``model_schema``              what a model file holds of it, and what each value must be
``model_size``                what carries the model, and how much of it there is
``strongest``                 the features or the examples that decide most
``known_labels``              what it can predict
``for_tables``                the estimator that commands train on a table
``table_inputs``              X and y of a table
``reads_tables``              whether commands can read its data from a table
``reads_blocks``              whether it predicts from rows on disk
``predicts_structures``       whether a label is a structure, such as a sequence
``onnx_parts``                its scores as nodes of an ONNX graph
============================  ====================================================================
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from cornerstep.core.types import FloatArray
from cornerstep.learning.certificates import Certificate, certificate_of
from cornerstep.learning.claims import Recomputed
from cornerstep.learning.display import CertifiedDisplay
from cornerstep.learning.specs import Schema


class Weights(NamedTuple):
    """Weights of features: a row per class, or a single row that speaks for the last class."""

    coefficients: FloatArray
    classes: Any


class Importances(NamedTuple):
    """Shares of the features."""

    shares: FloatArray
    caption: str


class SupportExamples(NamedTuple):
    """Dual coefficients of training examples."""

    sizes: FloatArray
    rows: Any


class CertifiedEstimator(CertifiedDisplay, BaseEstimator):
    """What a certified estimator says of itself; see the module.

    After ``fit`` it has ``objective_``, ``bound_``, ``gap_``, ``relative_gap_``, ``status_``,
    ``n_iter_`` and ``trace_``.
    """

    quantity: ClassVar[str] = "objective"  # what is optimised, in words
    maximises: ClassVar[bool] = False
    predicts_structures: ClassVar[bool] = False

    classes_: Any

    def check_parameters(self) -> None:
        """Complain about the first parameter that is not what it may be."""

    def machine_names(self) -> tuple[str, ...]:
        """What the machines of a model decide: '' if there is one."""
        return ("",)

    def certificate(self) -> Certificate:
        """What is proven of the fitted model."""
        return certificate_of(self)

    def recompute(
        self, X: Any, y: Any, sample_weight: Any, claimed: Certificate, problems: list[str]
    ) -> Recomputed:
        """Values and bounds of the machines, from the training data; what is wrong is added.

        Parameters
        ----------
        X, y, sample_weight
            The data that the model was trained on.
        claimed : Certificate
        problems : list of str
        """
        raise ValueError(f"{type(self).__name__} does not say how to recompute its certificate")

    @classmethod
    def model_schema(cls) -> Schema:
        """What a model file holds: parameters that answers depend on, and fitted attributes."""
        raise ValueError(f"{cls.__name__} does not say what a model file must hold")

    def model_size(self) -> tuple[str, int]:
        """What carries the model, and how much of it there is."""
        return "weights", int(np.count_nonzero(self.coef_))

    def strongest(self) -> Weights | Importances | SupportExamples | None:
        """The features or the training examples that decide most, if the model knows."""
        return None

    def known_labels(self) -> Any:
        """The labels that the model can predict."""
        return self.classes_

    @property
    def reads_tables(self) -> bool:
        """Whether commands can read its data from a table."""
        return True

    @property
    def reads_blocks(self) -> bool:
        """Whether the fitted model predicts from rows on disk, a block at a time."""
        return False

    @classmethod
    def for_tables(cls) -> CertifiedEstimator:
        """The estimator that commands train on a table."""
        return cls()

    def table_inputs(self, table: Any) -> tuple[Any, Any]:
        """X and y of a table that commands have read, as ``fit`` and ``predict`` take them."""
        return table.X, table.y

    def onnx_parts(self) -> tuple[list[Any], list[Any]]:
        """Nodes and initializers of an ONNX graph from ``X`` to ``scores``."""
        raise ValueError(
            "estimator must be a fitted MulticlassSVC with kernel='linear' or a "
            f"SoftMarginBoostingClassifier on trees, got {self!r}"
        )
