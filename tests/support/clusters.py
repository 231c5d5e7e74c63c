"""Clusters of two processes, and what happens to them."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import Any

import pytest

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

# distributed closes its connections when the interpreter does
quiet = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)


@contextmanager
def cluster():
    """Two processes."""
    import dask

    with (
        dask.config.set({"distributed.comm.timeouts.connect": "10s"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as workers,
        distributed.Client(workers) as client,
    ):
        yield client


def chunked(X, chunks):
    return da.from_array(X, chunks=(chunks, *X.shape[1:]))


def computed(lazy: Any) -> Any:
    """What a lazy answer is."""
    return lazy.compute()


def kill_a_worker(client, kind, monkeypatch, at):
    """Have one worker process killed when a solver looks for the ``at``-th time."""
    look = kind.look
    looks: list[None] = []

    def deadly(self):
        looks.append(None)
        if len(looks) == at:
            pids = client.run(os.getpid)
            busy = [place for place, held in client.has_what().items() if held]
            kill = getattr(signal, "SIGKILL", signal.SIGTERM)  # on Windows, all there is
            os.kill(pids[min(busy)], kill)
        return look(self)

    monkeypatch.setattr(kind, "look", deadly)
    return looks
