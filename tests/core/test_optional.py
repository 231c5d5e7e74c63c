import sys
from typing import Any

import numpy as np
import pytest

import cornerstep
from cornerstep.core.optional import optional_import

X, Y = np.eye(3), [0, 1, 2]
CALLS: dict[str, list[Any]] = {
    "matplotlib": [
        lambda model, path: model.trace_.plot(),
        lambda model, path: model.plot_margins(X, Y),
        lambda model, path: path.plot(),
    ],
    "pandas": [lambda model, path: model.trace_.to_pandas(), lambda model, path: path.to_pandas()],
    "torch": [lambda model, path: model.to_torch()],
    "onnx": [lambda model, path: cornerstep.to_onnx(model)],
}


@pytest.mark.parametrize("package", CALLS)
def test_calls_that_need_a_missing_package_say_how_to_get_it(package, monkeypatch):
    model = cornerstep.MulticlassSVC().fit(X, Y)
    path = cornerstep.regularization_path(model, X, Y, [1.0])
    for name in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    for call in CALLS[package]:
        how = f"needs {package}: pip install {package}, or 'cornerstep"
        with pytest.raises(ModuleNotFoundError, match=how):
            call(model, path)


def test_what_an_optional_package_lacks_itself_is_its_own_affair():
    with pytest.raises(ModuleNotFoundError, match="No module named 'nowhere'"), optional_import():
        import nowhere  # type: ignore[import-not-found] # noqa: F401
