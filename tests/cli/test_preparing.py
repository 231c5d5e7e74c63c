"""``cornerstep compile``: after it, default fits on data of any kind compile nothing."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
import warnings

import numpy as np
import scipy.sparse as sp
from numba.core.dispatcher import Dispatcher

from cornerstep import *
from cornerstep.cli.preparing import compile_kernels
from cornerstep.structured import ChainModel

warnings.simplefilter("ignore")


def compiled():
    return {
        (value.py_func.__qualname__, signature)
        for name, module in list(sys.modules.items())
        if name.startswith("cornerstep.")
        for value in vars(module).values()
        if isinstance(value, Dispatcher)
        for signature in value.signatures
    }


compile_kernels()
before = compiled()
rng = np.random.default_rng(1)
X, y = rng.standard_normal((500, 12)), rng.integers(0, 5, 500)
weights = rng.random(500) + 0.5
kinds = X, np.asfortranarray(X), X.astype("f4"), (9 * X).astype(int), sp.csr_matrix(X)
single = rng.standard_normal((1200, 900)).astype("f4")
for A in (*kinds, sp.csc_array(X.astype("f4"))):
    MulticlassSVC().fit(A, y, weights).predict(A)
    ReducedHullSVC().fit(A, y, weights).predict(A)
for C in (1e-3, 10.0, 1e4):
    MulticlassSVC(C=C, class_weight="balanced").fit(X, np.array(list("abcde"))[y])
    ReducedHullSVC(C=C, kernel="linear").fit(X, y > 2)
MulticlassSVC(smoothing=0).fit(X, y > 2)
MulticlassSVC(tol=0.1).fit(single, np.arange(1200) % 20)
MulticlassSVC(tol=0.1).fit(sp.csr_matrix(single), np.arange(1200) % 2)
ReducedHullSVC(nu=0.3).fit(X, y > 2)
OneClassHull().fit(X.astype("f4"))
ReducedHullSVR().fit(sp.csr_array(X), X[:, 0])
for A in kinds[:4]:
    SoftMarginBoostingClassifier().fit(A[:90], y[:90] > 2, weights[:90])
    SoftMarginBoostingClassifier(nu=0.3).fit(A, y).predict(A)
sentences, tags = ([A[k : k + 5] for k in range(0, 500, 5)] for A in (X, y))
for model in (ChainModel(), ChainModel(biases=False), ChainModel(transitions=False)):
    for kind in (np.asarray, np.float32, sp.csr_array):
        clf = StructuredSVC(model, max_iter=20)
        clf.fit([kind(x) for x in sentences], tags, weights[:100]).predict(sentences)
StructuredSVC(ChainModel(), lam=1e-4, max_iter=20).fit(sentences, tags)
words = [[[str(tag)] for tag in some] for some in tags]
names = [[f"B-{tag}" for tag in some] for some in tags]
SequenceTagger(constraints="BIO", max_iter=20).fit(words, names).predict(words)
print(*sorted({name for name, _ in compiled() - before}))
"""


def test_default_fits_compile_nothing_after_it():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == ""
