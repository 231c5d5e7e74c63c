"""scikit-learn's callbacks see the fits of every estimator, where scikit-learn has them."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV

from cornerstep import (
    MulticlassSVC,
    ReducedHullSVC,
    SoftMarginBoostingClassifier,
    Status,
    StructuredSVC,
)
from cornerstep.structured import MulticlassModel

callback = pytest.importorskip("sklearn.callback")

X, y = load_iris(return_X_y=True)
ESTIMATORS = [
    MulticlassSVC(random_state=0),
    ReducedHullSVC(C=1.0, n_jobs=2),  # three pairs of classes, one after the other when watched
    SoftMarginBoostingClassifier(nu="auto"),  # fits of its own on halves, which nobody sees
    StructuredSVC(MulticlassModel(), random_state=0),
]


class Diary:
    """Writes down what it is called for; ends a fit after ``patience`` iterations."""

    def __init__(self, patience=np.inf):
        self.patience = patience
        self.entries = []
        self.fitted = []

    def setup(self, estimator, context):
        self.entries.append("setup")

    def teardown(self, estimator, context):
        self.entries.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None):
        if context.task_name != "iteration":
            self.entries.append("begin")
            assert (X is None) == (y is None)

    def on_fit_task_end(self, estimator, context, *, metadata=None, fitted_estimator=None):
        if context.task_name != "iteration":
            self.entries.append("end")
            self.fitted.append(fitted_estimator)
            return False
        self.entries.append(metadata)
        return context.task_id + 1 >= self.patience


def each(function):
    return pytest.mark.parametrize("model", ESTIMATORS, ids=lambda m: type(m).__name__)(function)


@each
def test_every_iteration_is_a_task_and_the_model_is_ready_at_the_end(model):
    plain = clone(model).fit(X, y)
    diary = Diary()
    clf = clone(model).set_callbacks(diary).fit(X, y)
    assert diary.entries[:2] == ["setup", "begin"]
    assert diary.entries[-2:] == ["end", "teardown"]
    iterations = diary.entries[2:-2]
    assert len(iterations) == sum(len(machine.trace) for machine in clf.machines_)
    rows = [row for machine in clf.machines_ for row in machine.trace]
    assert [seen["value"] for seen in iterations] == [row["value"] for row in rows]
    np.testing.assert_equal([seen["gap"] for seen in iterations], [row["gap"] for row in rows])
    [ready] = diary.fitted
    assert np.array_equal(ready.predict(X), clf.predict(X))
    assert clf.objective_ == plain.objective_
    assert type(pickle.loads(pickle.dumps(clf))) is type(clf)
    assert "_callback_fit_ctx" not in vars(clf)


@each
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_callback_can_end_the_fit(model):
    clf = clone(model).set_callbacks(Diary(patience=2)).fit(X, y)
    assert clf.status_ is Status.STOPPED
    assert len(clf.predict(X)) == len(y)


@each
def test_callbacks_are_told_when_a_fit_fails_and_the_old_model_stays(model):
    diary = Diary()
    clf = clone(model).fit(X, y)
    before = clf.objective_
    with pytest.raises(ValueError, match=r"NaN|finite"):
        clf.set_callbacks(diary).fit(np.full_like(X, np.nan), y)
    assert diary.entries in (["setup", "begin", "teardown"], [])
    assert clf.objective_ == before
    clf.set_callbacks().fit(X, y)
    assert "_skl_callbacks" not in vars(clf)


def test_a_progress_bar_of_a_search_reaches_the_fits(capsys):
    bar = callback.ProgressBar(max_propagation_depth=None)
    search = GridSearchCV(MulticlassSVC(random_state=0), {"C": [0.1, 1.0]}, cv=2)
    search.set_callbacks(bar).fit(X, y)
    assert "MulticlassSVC" in capsys.readouterr().out
    assert search.best_score_ > 0.8


def test_a_monitor_has_the_score_of_the_model():
    monitor = callback.ScoringMonitor(scoring="accuracy")
    clf = MulticlassSVC(random_state=0).set_callbacks(monitor).fit(X, y)
    [row] = monitor.get_logs().data
    assert row["accuracy"] == clf.score(X, y)
