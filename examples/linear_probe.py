"""
A linear probe: what do the layers of a network know?
=====================================================

A network was trained for one thing; a linear model on the output of each layer shows what else can
be read off it. What to take from it: with a certificate, a difference between layers is one of the
layers and not of how long each probe was trained.
"""

# %%
# The network learns whether a digit is even. The probes ask which digit it is.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from cornerstep import MulticlassSVC, certificate

X, digit = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, digit, random_state=0)
network = MLPClassifier((48, 24, 12), max_iter=60, early_stopping=True, random_state=0)
network.fit(X_train, y_train % 2)
print(f"even or odd: test accuracy {network.score(X_test, y_test % 2):.3f}")


def layers(rows):
    """The output of every hidden layer (networks of torch: collect them with hooks)."""
    outputs = [rows]
    for weights, offsets in zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True):
        outputs.append(np.maximum(outputs[-1] @ weights + offsets, 0))
    return outputs


# %%
# One probe a layer, on scaled features, each within a tenth of a per cent of the best linear
# model there is.

print("layer     width   which digit   certificate of the probe")
accuracy = []
for depth, (train, test) in enumerate(zip(layers(X_train), layers(X_test), strict=True)):
    scaler = StandardScaler().fit(train)
    probe = MulticlassSVC(C=0.1, random_state=0).fit(scaler.transform(train), y_train)
    accuracy.append(probe.score(scaler.transform(test), y_test))
    name = f"hidden {depth}" if depth else "pixels"
    print(f"{name:9} {train.shape[1]:5} {accuracy[-1]:12.3f}    {certificate(probe).sentence}")

# %%
# Random layers of the same widths: how much of the loss comes from fewer features alone.

random = []
rng = np.random.default_rng(0)
train, test = X_train, X_test
for width in (None, 48, 24, 12):
    if width is not None:
        weights = rng.standard_normal((train.shape[1], width)) / np.sqrt(train.shape[1])
        train, test = np.maximum(train @ weights, 0), np.maximum(test @ weights, 0)
    scaler = StandardScaler().fit(train)
    probe = MulticlassSVC(C=0.1, random_state=0).fit(scaler.transform(train), y_train)
    random.append(probe.score(scaler.transform(test), y_test))
print("random layers:", *(f"{share:.3f}" for share in random))

try:
    import matplotlib.pyplot as plt
except ModuleNotFoundError:
    raise SystemExit("the picture needs matplotlib") from None

figure, ax = plt.subplots()
ax.plot(accuracy, "o-", label="trained for even or odd")
ax.plot(random, "s-", label="random")
ax.set_xticks(range(4), ["pixels", "48", "24", "12"])
ax.set(xlabel="layer (its width)", ylabel="accuracy of the probe", title="which digit is it?")
ax.legend()
plt.show()
