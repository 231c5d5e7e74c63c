"""scikit-learn's callbacks, where the installed version has them (1.9 and newer).

A fit is a task, and every iteration of its machines a task below it.  How many there will be is not
known; value and gap of an iteration are the ``metadata`` of its task.  A model is ready at the end
of the fit only.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from cornerstep.learning.fitting import whole_fit
from cornerstep.optimiser.loop import Callback, Iterate


class Watchable:
    """For estimators: ``set_callbacks``."""

    if find_spec("sklearn.callback") is not None:  # imported when asked for: it takes its time

        def set_callbacks(self, *callbacks: Any) -> Any:
            """Have scikit-learn's callbacks see the fits to come; without any, none.

            Parameters
            ----------
            *callbacks : objects of :mod:`sklearn.callback`, or of your own with its protocol

            Returns
            -------
            self
            """
            from sklearn.callback import CallbackSupportMixin

            return CallbackSupportMixin.set_callbacks(self, *callbacks)


def watched(estimator: Any, X: Any, y: Any, fit: Callable[[], Any]) -> Any:
    """``fit()`` as a whole, its begin and end seen by the callbacks of an estimator, if any."""
    if not (hasattr(estimator, "_skl_callbacks") or hasattr(estimator, "_parent_callback_ctx")):
        with whole_fit(estimator):
            return fit()
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    def seen(estimator: Any) -> Any:
        task = CallbackSupportMixin._init_callback_context(estimator, max_subtasks=None)
        task.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
        with whole_fit(estimator):
            answer = fit()
        task.call_on_fit_task_end(estimator=estimator, X=X, y=y, reconstruction_attributes=dict)
        return answer

    return with_callbacks(seen)(estimator)


def iteration_callback(estimator: Any) -> Callback | None:
    """What the loop has to call: ``estimator.callback``, and scikit-learn's in a watched fit."""
    own, fit_task = estimator.callback, getattr(estimator, "_callback_fit_ctx", None)
    if fit_task is None:
        return own

    def both(iterate: Iterate) -> bool:
        task = fit_task.subcontext(task_name="iteration")
        task.call_on_fit_task_begin(estimator=estimator)
        seen = {"iteration": iterate.iteration, "value": iterate.value, "gap": iterate.gap}
        stop = task.call_on_fit_task_end(estimator=estimator, metadata=seen)
        return bool(own is not None and own(iterate)) or bool(stop)

    return both
