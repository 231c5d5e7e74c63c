"""What a model file holds of a tagger: what it does of a structured SVM, and a vocabulary."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from cornerstep.learning.specs import (
    Count,
    Integer,
    Kind,
    Maybe,
    Schema,
    Sizes,
    Spec,
    Word,
    require,
)
from cornerstep.structured import model_file
from cornerstep.structured.tokens import KINDS, Vocabulary


def _write(vocabulary: Vocabulary, encode: Any, name: str) -> Any:
    """All names in one array of bytes, and where each ends: words of any length take their room."""
    texts = [text.encode("utf-8", "surrogatepass") for text in vocabulary.names]
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    return [encode(np.frombuffer(b"".join(texts), np.uint8), f"{name}.text"),
            encode(ends, f"{name}.ends")]  # fmt: skip


def _read(content: Any, decode: Any) -> Vocabulary:
    text, ends = (decode(part) for part in content)
    whole, bounds = text.tobytes(), [0, *ends.tolist()]
    return Vocabulary([whole[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(bounds)])


class _Names(Spec):
    """A vocabulary of different names, a column each, letter d."""

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        require(isinstance(value, Vocabulary), name, "a vocabulary", value)
        Count("d").check(len(value), name, sizes)
        require(len(set(value.names)) == len(value), name, "different names", value)


def _optional(estimator: Any) -> tuple[str, ...]:
    return ()


SCHEMA = Schema(
    {**model_file.SCHEMA.parameters, "hashing": Maybe(Integer(1))},
    {**model_file.SCHEMA.attributes, "tokens_": Word(*KINDS), "vocabulary_": Maybe(_Names())},
    _optional,
    kinds=(
        *model_file.SCHEMA.kinds,
        Kind("vocabulary", lambda value: isinstance(value, Vocabulary), _write, _read),
    ),
)
