"""Long work cut into pieces, so that the clock can be asked between them."""

from __future__ import annotations

from collections.abc import Iterator

from cornerstep.core.clock import work_seconds

_SHORT = 0.05  # seconds: pieces that take less may be longer, those of twice as many are cut


class Pieces:
    """``for piece in pieces(n)``: slices of ``range(n)``, each of about a twentieth of a second.

    Parameters
    ----------
    most : int
        The longest piece.
    """

    def __init__(self, most: int = 2**30) -> None:
        self.most = most
        self._size = 1

    def __call__(self, n: int) -> Iterator[slice]:
        """The slices, one after the other; how long the caller has each one decides the next."""
        start = 0
        while start < n:
            stop = min(start + self._size, n)
            begin = work_seconds()
            yield slice(start, stop)
            seconds = work_seconds() - begin
            if seconds < _SHORT and stop - start == self._size:
                self._size = min(2 * self._size, self.most)
            elif seconds > 2 * _SHORT:
                self._size = max(self._size // 2, 1)
            start = stop
