"""Specifications: what a value must be, said once and checked in one place.

A specification complains in one line: the name of the value, what it must be, and what it is.
Letters in shapes stand for sizes that other values have too; see
:class:`Schema`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from cornerstep.learning.certificates import MachineProof
from cornerstep.optimiser.result import Status, Trace

Sizes = dict[str, int]


def require(fits: Any, name: str, must: str, value: Any) -> None:
    """Complain unless a value fits."""
    if not fits:
        raise ValueError(f"{name} must be {must}, got {_shown(value)}")


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray) or sp.issparse(value):
        return f"an array of {value.dtype} and shape {value.shape}"
    text = repr(value) if isinstance(value, bool | int | float | str | None) else ""
    return text if 0 < len(text) <= 40 else f"a value of type {type(value).__name__}"


class Spec:
    """What a value must be."""

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        """Complain about a value; learn the sizes that it is the first to tell."""
        raise NotImplementedError


class Number(Spec):
    """A number, NaN and infinity among them where there is no least one."""

    kind: type = Real

    def __init__(self, least: float | None = None) -> None:
        self.least = least

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        fits = isinstance(value, self.kind) and not isinstance(value, bool)
        if self.least is None:
            require(fits, name, "a number", value)
        else:
            least = self.least
            require(fits and value >= least, name, f"a number >= {least:g}", value)


class Float(Number):
    """A number that was computed."""

    kind = float


class Integer(Spec):
    """A whole number; ``least`` None for any."""

    def __init__(self, least: int | None = 0) -> None:
        self.least = least

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        fits = isinstance(value, int) and not isinstance(value, bool)
        if self.least is None:
            require(fits, name, "an integer", value)
        else:
            require(fits and value >= self.least, name, f"an integer >= {self.least}", value)


class Count(Spec):
    """How many there are of what a letter stands for."""

    def __init__(self, letter: str | None, least: int = 1) -> None:
        self.letter, self.least = letter, least

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        Integer(self.least).check(value, name, sizes)
        if self.letter is not None:
            known = sizes.setdefault(self.letter, value)
            require(value == known, name, str(known), value)


class Flag(Spec):
    """True or False, or what stands for them."""

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        require(isinstance(value, bool | int | np.bool_), name, "True or False", value)


class Word(Spec):
    """One of some words."""

    def __init__(self, *choices: str) -> None:
        self.choices = choices

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        fits = isinstance(value, str) and value in self.choices
        require(fits, name, f"one of {', '.join(self.choices)}", value)


class StatusOf(Spec):
    """Why a run stopped."""

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        require(isinstance(value, Status), name, "a status", value)


class TraceOf(Spec):
    """The course of a run: numbers, but for the kind of its steps."""

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        require(isinstance(value, Trace), name, "a trace", value)
        for column in value.columns if len(value) else ():
            kinds = "U" if column == "kind" else "biuf"
            entries = value[column]
            require(entries.ndim == 1, f"{name}[{column!r}]", "a column of a trace", entries)
            require(
                entries.dtype.kind in kinds, f"{name}[{column!r}]", "a column of a trace", entries
            )


class Proof(Spec):
    """What is proven of a machine."""

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        require(isinstance(value, MachineProof), name, "the proof of a machine", value)
        for part in ("objective", "bound", "gap"):
            Float().check(getattr(value, part), f"{name}.{part}", sizes)
        StatusOf().check(value.status, f"{name}.status", sizes)
        Integer().check(value.n_iter, f"{name}.n_iter", sizes)
        TraceOf().check(value.trace, f"{name}.trace", sizes)


class Array(Spec):
    """An array of numbers.

    Parameters
    ----------
    dtypes : tuple of str
        What its entries may be; 'O' for words.
    shape : letters and numbers
        '_' is any size.
    below : str, optional
        Its entries are from 0 to less than this size, if that is known.
    total : str, optional
        Its entries are >= 0 and sum up to this size.
    finite : bool
    """

    def __init__(
        self, dtypes: tuple[str, ...], *shape: str | int, below: str | None = None,
        total: str | None = None, finite: bool = True,
    ) -> None:  # fmt: skip
        self.dtypes = tuple(map(np.dtype, dtypes))
        self.shape, self.below, self.total, self.finite = shape, below, total, finite

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        self._check_shape(value, isinstance(value, np.ndarray), name, sizes)
        self._check_entries(value, name, sizes)

    def _check_shape(self, value: Any, fits: bool, name: str, sizes: Sizes) -> None:
        fits = fits and value.dtype in self.dtypes
        shape = self._shape(value.shape if fits else (), sizes)
        must = f"an array of {self.dtypes[-1]} and shape ({', '.join(map(str, shape))})"
        require(fits and value.shape == shape, name, must, value)
        for letter, size in zip(self.shape, shape, strict=True):
            if isinstance(letter, str) and letter != "_":
                sizes[letter] = int(size)

    def _shape(self, found: tuple[int, ...], sizes: Sizes) -> tuple[Any, ...]:
        """The shape with the sizes that are known; what is not known is as it was found."""
        free = dict(enumerate(found))
        return tuple(
            size if isinstance(size, int) else sizes.get(size, free.get(axis, size))
            for axis, size in enumerate(self.shape)
        )

    def _check_entries(self, value: Any, name: str, sizes: Sizes) -> None:
        if value.dtype.kind == "O":
            require(all(isinstance(v, str) for v in value), name, "an array of words", value)
        if value.dtype.kind == "f" and self.finite:
            require(np.isfinite(value).all(), name, "finite", value)
        if self.below is not None and value.size:
            most = sizes.get(self.below, math.inf)
            fits = value.min() >= 0 and value.max() < most
            require(fits, name, f"from 0 to less than {most}", int(value.max()))
        if self.total is not None:
            fits = value.min() >= 0 and value.sum() == sizes[self.total]
            require(fits, name, f">= 0 with the sum {sizes[self.total]}", value)


class Rows(Array):
    """The same as a matrix, dense or CSR."""

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        if not sp.issparse(value):
            super().check(value, name, sizes)
            return
        self._check_shape(value, value.format == "csr", name, sizes)
        self._check_entries(value.data, name, sizes)


class Labels(Spec):
    """Different labels in order, letter m.

    Parameters
    ----------
    least, most : int
        How many there may be.
    derived : functions
        Sizes that follow from m, by letter.
    """

    def __init__(
        self, least: int = 2, most: float = math.inf, **derived: Callable[[int], int]
    ) -> None:
        self.least, self.most, self.derived = least, most, derived

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        fits = isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "biufUSO"
        must = f"at least {self.least} different labels in order"
        require(fits and self.least <= value.size <= self.most, name, must, value)
        if value.dtype.kind == "O":
            require(len({type(label) for label in value}) == 1, name, "labels of one type", value)
        require((value[:-1] < value[1:]).all(), name, must, value)
        require(value.dtype.kind != "f" or np.isfinite(value).all(), name, "finite", value)
        sizes["m"] = int(value.size)
        sizes.update({letter: size(sizes["m"]) for letter, size in self.derived.items()})


class Maybe(Spec):
    """None, or what the specification says."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        if value is not None:
            self.spec.check(value, name, sizes)


class Each(Spec):
    """A list, or a tuple, of as many as a letter says."""

    def __init__(self, spec: Spec, letter: str | None = None, length: int | None = None) -> None:
        self.spec, self.letter, self.length = spec, letter, length

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        length = self.length if self.letter is None else sizes[self.letter]
        fits = isinstance(value, list | tuple) and length in (None, len(value))
        require(fits, name, f"a list of {length} values", value)
        for k, part in enumerate(value):
            self.spec.check(part, f"{name}[{k}]", sizes)


class Fields(Spec):
    """A tuple of one value for each specification."""

    def __init__(self, *specs: Spec) -> None:
        self.specs = specs

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        fits = isinstance(value, tuple) and len(value) == len(self.specs)
        require(fits, name, f"a tuple of {len(self.specs)} values", value)
        for k, (part, spec) in enumerate(zip(value, self.specs, strict=True)):
            spec.check(part, f"{name}[{k}]", sizes)


class OneOrEach(Spec):
    """One value for one machine, p = 1; another kind of value for several."""

    def __init__(self, one: Spec, several: Spec) -> None:
        self.one, self.several = one, several

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        (self.one if sizes["p"] == 1 else self.several).check(value, name, sizes)


class Record(Spec):
    """An object whose attributes are as specified."""

    def __init__(self, parts: dict[str, Spec]) -> None:
        self.parts = parts

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        for key, spec in self.parts.items():
            require(hasattr(value, key), name, f"complete: it has no {key}", value)
            spec.check(getattr(value, key), f"{name}.{key}", sizes)


class Kind(NamedTuple):
    """A kind of values that only some estimators have, and how model files hold it.

    Attributes
    ----------
    name : str
        What the file calls it.
    holds : function of a value
        Whether it is of this kind.
    write : function of the value, the encoder and a name for its arrays
        What becomes JSON; the encoder makes JSON of the value's parts.
    read : function of that JSON and the decoder
        The value again.
    """

    name: str
    holds: Callable[[Any], bool]
    write: Callable[[Any, Any, str], Any]
    read: Callable[[Any, Any], Any]


class Schema(NamedTuple):
    """What a fitted estimator is made of: type, shape and range of all that a model file sets.

    Sizes are letters, which mean one number throughout a model: the first attribute that has a
    letter says which, and all others must agree.

    ====  ===========================================  ====  ======================================
     d    features                                      n    training examples
     m    classes                                       s    support vectors
     r    rows of weights: 1 for two classes, else m    p    machines, each with a certificate
     w    weights of a structured model                v, c  support vectors kept: s, d or none
    ====  ===========================================  ====  ======================================

    Attributes
    ----------
    parameters : dict
        The parameters that answers depend on; the others are the estimator's affair.
    attributes : dict
        The fitted attributes: nothing else is written or set.
    optional : function of the estimator
        Attributes that it may lack, by its parameters.
    derive : function of the estimator, the name of an attribute, and the sizes
        What one attribute says of others.
    kinds : tuple of Kind
        Of values beyond numbers, words, arrays and proofs.
    """

    parameters: dict[str, Spec]
    attributes: dict[str, Spec]
    optional: Callable[[Any], tuple[str, ...]] = lambda estimator: ("feature_names_in_",)
    derive: Callable[[Any, str, Sizes], None] = lambda estimator, name, sizes: None
    kinds: tuple[Kind, ...] = ()


DOUBLE, WHOLE = ("f8",), ("i4", "i8")
FLOAT = ("f4", "f8")
