"""CoNLL-2000 chunking beside CRFsuite: CPU seconds, chunk F1, and objectives of the same problem.

The problem is that of ``c2 = 1`` with all states and transitions possible: a conditional random
field with ``lambda = 2/n``, of which ours proves 1e-6.  The taggers choose lambda by their path.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks.core import (
    Answer,
    Benchmark,
    Dataset,
    Measures,
    Recorder,
    Row,
    Run,
    Settings,
    Solver,
)
from benchmarks.structured import Problem, chunk_f1, conll

EXACT = 1e-6
_C2 = 1.0
_FEW = slice(0, 30)


@dataclass
class Task:
    """The sentences, and what is proven of the least objective, times n."""

    problem: Problem
    bound: float = 0.0

    @property
    def tags(self) -> list[str]:
        """The names of the labels."""
        return list(self.problem.extra["tags"])

    def named(self, labels: Any) -> list[list[str]]:
        """Labels by their names."""
        return [[self.tags[k] for k in y] for y in labels]


@dataclass
class Tagged:
    """Answers for the test sentences, and the objective times n where it is of the problem."""

    answers: list[Any]
    objective: float = float("nan")
    bound: float = 0.0
    work: Measures = field(default_factory=dict)


def _timed(fit: Callable[[], Any], predict: Callable[[Any], Tagged]) -> Answer:
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fit()
    seconds = time.process_time() - begun
    begun = time.process_time()
    found = predict(model)
    work = {"predict": time.process_time() - begun}
    return Answer(found, getattr(model, "n_iter_", None), "", work, seconds)


def _svm(task: Task, **options: Any) -> Run:
    from cornerstep import StructuredSVC
    from cornerstep.structured import ChainModel

    problem, n = task.problem, len(task.problem.X)
    model = ChainModel()  # of the labels seen, as CRFsuite has them
    svm = StructuredSVC(model, loss="softmax", lam=2 * _C2 / n, random_state=0, **options)

    def found(clf: Any) -> Tagged:
        return Tagged(clf.predict(problem.X_test), n * clf.objective_, n * clf.bound_)

    _timed(lambda: svm.fit(problem.X[_FEW], problem.Y[_FEW]), lambda clf: Tagged([]))  # compiles
    return lambda recorder: _timed(lambda: svm.fit(problem.X, problem.Y), found)


def _tagger(task: Task, **options: Any) -> Run:
    from cornerstep import SequenceTagger
    from cornerstep.structured.models.constraints import rule_of

    problem, labels = task.problem, task.named(task.problem.Y)
    tagger = SequenceTagger(constraints=rule_of(labels), random_state=0, **options)
    _timed(lambda: tagger.fit(problem.X[_FEW], labels[_FEW]), lambda found: Tagged([]))

    def found(tagger: Any) -> Tagged:
        numbers = {name: k for k, name in enumerate(task.tags)}
        answers = tagger.predict(problem.X_test)
        return Tagged([[numbers[name] for name in y] for y in answers])

    return lambda recorder: _timed(lambda: tagger.fit(problem.X, labels), found)


def _crfsuite(task: Task, algorithm: str, **options: Any) -> Run:
    import pycrfsuite

    problem, folder = task.problem, task.problem.extra["folder"]
    trainer = pycrfsuite.Trainer(algorithm, options, verbose=False)
    for x, y in zip(map(_strings, problem.X), task.named(problem.Y), strict=True):
        trainer.append(x, y)
    tests = [_strings(x) for x in problem.X_test]
    path = f"{folder}/{algorithm}{len(options)}.crfsuite"
    whole = options.get("feature.possible_states", False)

    def found(_: Any) -> Tagged:
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        numbers = {name: k for k, name in enumerate(task.tags)}
        answers = [[numbers[name] for name in tagger.tag(x)] for x in tests]
        last = trainer.logparser.last_iteration["loss"] if whole else float("nan")
        return Tagged(answers, float(last))

    def run(recorder: Recorder | None) -> Answer:
        return _timed(lambda: trainer.train(path), found)

    return run


def _strings(x: Any) -> Any:
    """The features of the tokens of a sentence, as CRFsuite takes them."""
    import pycrfsuite

    return pycrfsuite.ItemSequence(
        [[f"{k}" for k in x.indices[a:b]] for a, b in zip(x.indptr[:-1], x.indptr[1:], strict=True)]
    )


def _judge(task: Task, found: Tagged) -> Measures:
    problem = task.problem
    task.bound = max(task.bound, found.bound)
    out = {"chunk F1": 100 * chunk_f1(task.tags, problem.Y_test, found.answers)}
    right = [a == b for y, z in zip(problem.Y_test, found.answers, strict=True)
             for a, b in zip(y, z, strict=True)]  # fmt: skip
    out["token error"] = 100 * (1 - sum(right) / len(right))
    if task.bound and found.objective == found.objective:
        out["above the bound"] = found.objective / task.bound - 1
    return out


def _notes(rows: list[Row]) -> list[str]:
    lines = [""]
    for name in dict.fromkeys(row.dataset for row in rows):
        seconds = {row.solver: row.best for row in rows if row.dataset == name and row.seconds}
        ours, peer = (seconds.get(solver) for solver in (_EXACT_NAME, _PEER_NAME))
        if ours and peer:
            lines.append(f"{name}: CRFsuite takes {peer / ours:.1f} times as long for the problem")
    return lines


_EXACT_NAME, _PEER_NAME = f"softmax to {EXACT:g}", "CRFsuite L-BFGS, all states"
_WHOLE = {"c1": 0.0, "c2": _C2, "feature.possible_transitions": True}


def _task(share: float) -> Task:
    from tempfile import mkdtemp

    problem = conll(share)
    problem.extra["folder"] = mkdtemp()
    return Task(problem)


def build(settings: Settings) -> Benchmark:
    """An eighth of the sentences; all of them, where CRFsuite takes minutes, with ``--full``."""
    peer = partial(partial, _crfsuite)
    solvers = (
        Solver(_EXACT_NAME, partial(_svm, atol=0.0, tol=EXACT)),
        Solver("softmax to 0.01", _svm),
        Solver("SequenceTagger", _tagger),
        Solver("SequenceTagger softmax", partial(_tagger, loss="softmax")),
        Solver(
            _PEER_NAME,
            peer(algorithm="lbfgs", **_WHOLE, **{"feature.possible_states": True}),
            requires=("pycrfsuite",),
        ),
        Solver(
            "CRFsuite L-BFGS, states seen", peer(algorithm="lbfgs", **_WHOLE),
            requires=("pycrfsuite",),
        ),
        Solver(
            "CRFsuite averaged perceptron", peer(algorithm="ap", max_iterations=20),
            requires=("pycrfsuite",),
        ),
    )  # fmt: skip
    shares = {"an eighth of the sentences": 0.125} | (
        {"all sentences": 1.0} if settings.full else {}
    )
    return Benchmark(
        name="structured_conll",
        title="CoNLL-2000 chunking beside CRFsuite, c2 = 1; CPU seconds",
        datasets=tuple(Dataset(name, partial(_task, share)) for name, share in shares.items()),
        solvers=solvers,
        judge=_judge,
        baseline=_EXACT_NAME,
        repeat=1,
        shown=("above the bound", "chunk F1", "token error", "predict"),
        notes=_notes,
        slow=True,
        real_data=True,
        compact=True,
    )
