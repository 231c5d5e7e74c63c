"""The protocol of certified estimators: what one says of itself to the rest of the library.

Certificates, verification, model files, reports, commands and ONNX graphs ask these methods, and
never which class they were given.  A subclass of an estimator inherits the answers; an estimator
of any other package gives its own:

============================  ====================================================================
``check_parameters``          complain about parameters
``record``                    take the proofs of a fit for attributes
``certificate``               what is proven of the model
``machine_names``             what each of its machines decides
``recompute``                 the same numbers from the training data
``model_schema``              what a model file holds of it, and what each value must be
``complete``                  what a model file leaves out, made from what it holds
``model_size``                what carries the model, and how much of it there is
``strongest``                 the features or the examples that decide most
``known_labels``              what it can predict
``for_tables``                the estimator that commands train on a table
``table_inputs``              X and y of a table
``reads_tables``              whether commands can read its data from a table
``reads_sentences``           whether its data are sentences of tokens with named features
``reads_blocks``              whether it predicts from rows on disk
``predicts_structures``       whether a label is a structure, such as a sequence
``words``                     the tokens of its sentences as a reader knows them
``losses``                    how wrong each of some answers is, where labels are structures
``chosen``                    what parameters that were left to the data have become
``minds_units``               whether the units of its features matter: tables are scaled then
``onnx_parts``                its scores as nodes of an ONNX graph
============================  ====================================================================
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from cornerstep.core.types import FloatArray
from cornerstep.learning.certificates import Certificate, MachineProof, summary
from cornerstep.learning.claims import Recomputed
from cornerstep.learning.display import CertifiedDisplay
from cornerstep.learning.specs import Schema
from cornerstep.optimiser.result import Status, Trace


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

    ``fit`` stops when ``gap <= max(atol, tol * |objective|)`` and calls :meth:`record`.

    Attributes
    ----------
    machines_ : list of MachineProof
        What is proven of each machine.
    objective_, bound_, gap_ : float
        Of the machine with the largest gap.
    relative_gap_ : float
        The largest.
    status_ : Status
        *solved* only if all machines are.
    n_iter_ : int
        The largest.
    trace_ : Trace
        Of the machine with the largest gap.
    """

    quantity: ClassVar[str] = "objective"  # what is optimised, in words
    maximises: ClassVar[bool] = False
    predicts_structures: ClassVar[bool] = False
    minds_units: ClassVar[bool] = True  # whether the units of its features matter

    classes_: Any
    tol: float
    atol: float
    machines_: list[MachineProof]
    status_: Status
    gap_: float
    relative_gap_: float
    objective_: float
    bound_: float
    trace_: Trace
    n_iter_: int

    def check_parameters(self) -> None:
        """Complain about the first parameter that is not what it may be."""

    def chosen(self) -> dict[str, Any]:
        """What each parameter that is left to the data, 'auto', has become."""
        return {
            name: getattr(self, f"{name}_")
            for name, value in self.get_params(deep=False).items()
            if isinstance(value, str) and value == "auto" and hasattr(self, f"{name}_")
        }

    def machine_names(self) -> tuple[str, ...]:
        """What the machines of a model decide: '' if there is one."""
        return ("",)

    def record(self, machines: list[MachineProof]) -> None:
        """Take the proofs of the machines of a fit, and their summary, for attributes."""
        self.machines_ = machines
        for name, value in summary(machines).items():
            setattr(self, name, value)

    def certificate(self) -> Certificate:
        """What is proven of the fitted model."""
        machines = self.machines_
        values = np.array([machine.objective for machine in machines])
        last = [machine.trace["seconds"][-1] for machine in machines if len(machine.trace)]
        return Certificate(
            self.quantity, self.machine_names(), values,
            np.array([machine.bound for machine in machines]),
            tuple(machine.status for machine in machines), self._asked(),
            np.maximum(float(self.atol), float(self.tol) * np.abs(values)),
            float(sum(last)), max(machine.n_iter for machine in machines),
            getattr(self, "bound_is_exact_", True), self.maximises,
        )  # fmt: skip

    def _asked(self) -> str:
        """The stopping rule in words."""
        absolute, relative = f"gap <= {self.atol:g}", f"relative gap <= {self.tol:g}"
        if not self.tol:
            return absolute
        return f"{absolute} or {relative}" if self.atol else relative

    def warn_if_short(self) -> None:
        """Warn the caller of ``fit`` if a machine stopped before it had what was asked for."""
        if self.status_.is_short:
            short = [machine for machine in self.machines_ if machine.status.is_short]
            of = (
                f" {len(short)} of {len(self.machines_)} machines"
                if len(self.machines_) > 1
                else ""
            )
            worst = max(short, key=lambda machine: machine.gap)
            warnings.warn(
                f"{type(self).__name__} stopped{of} at a gap of {worst.gap:.1e}, "
                f"{worst.relative_gap:.1e} of the {self.quantity}, above what was asked for "
                f"({self._asked()}): {worst.status.message}",
                ConvergenceWarning,
                stacklevel=3,
            )

    def warn_if_constant(self, is_constant: bool, why: str, cure: str) -> None:
        """Warn the caller of ``fit`` of a solved model that answers the same to every question."""
        if is_constant and self.status_ is Status.SOLVED:
            warnings.warn(
                f"{type(self).__name__} is solved, and answers the same for all examples: {why}; "
                f"{cure}",
                UserWarning,
                stacklevel=3,
            )

    def complete(self) -> None:
        """Make the attributes that a model file leaves out, from those that it holds."""
        self.record(self.machines_)

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
    def reads_sentences(self) -> bool:
        """Whether its data are sentences of tokens with named features, as taggers have."""
        return False

    def words(self, X: Any) -> list[list[str]] | None:
        """The tokens of sentences as a reader knows them; None where there are no words."""
        return None

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
        """Nodes and initializers of an ONNX graph from ``X`` to ``scores``.

        And to ``label``, where that is not the largest score, or a score of two classes above 0.
        """
        raise ValueError(
            "estimator must be fitted, and be linear, have a kernel with a name (not precomputed, "
            f"not a function) or be boosted on trees, got {self!r}"
        )
