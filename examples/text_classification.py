"""
Text: which topic is a message about?
=====================================

A pipeline from words to a certified linear model. What to take from it: any scikit-learn vectoriser
goes in front of :class:`cornerstep.MulticlassSVC`, the model says how far it is from the best one,
and its weights say which words decide.
"""

# %%
# The messages are made up: of their words two are of the topic, one is of any topic, and six say
# nothing. Put your own texts and labels in their place.

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from cornerstep import MulticlassSVC, certificate

TOPICS = {
    "cooking": "oven garlic butter simmer recipe flour onion taste star dough stage stir",
    "space": "orbit telescope planet rocket comet launch gravity lunar probe star stage crater",
    "football": "goal referee striker penalty league coach match kick star pitch shares stage",
    "money": "loan interest bank shares budget tax invest price market profit debt tune",
    "music": "guitar chord melody tempo concert choir violin lyrics pitch album stage tune",
}
EMPTY = "the a of and with today very some new we it was for good more".split()

rng = np.random.default_rng(0)
names = sorted(TOPICS)


def message(topic):
    other = names[rng.integers(len(names))]
    words = [
        *rng.choice(TOPICS[topic].split(), 2),
        *rng.choice(TOPICS[other].split(), 1),
        *rng.choice(EMPTY, 6),
    ]
    return " ".join(rng.permutation(words))


topics = rng.choice(names, 2000)
texts = [message(topic) for topic in topics]
train, test, y_train, y_test = train_test_split(texts, topics, random_state=0)
print(f"{train[0]!r} is about {y_train[0]}")

# %%
# Train, and compare with the most frequent topic and with logistic regression on the same
# features.


def accuracy(classifier):
    return make_pipeline(TfidfVectorizer(), classifier).fit(train, y_train).score(test, y_test)


model = make_pipeline(TfidfVectorizer(), MulticlassSVC(random_state=0)).fit(train, y_train)
svm = model[-1]
print(f"most frequent topic  {accuracy(DummyClassifier()):.3f}")
print(f"logistic regression  {accuracy(LogisticRegression()):.3f}")
print(f"MulticlassSVC        {model.score(test, y_test):.3f}")
print(f"  one of two guesses {svm.top_k_score(model[:-1].transform(test), y_test, k=2):.3f}")
print(certificate(svm).sentence)

# %%
# The words with the largest weights, a row for each topic.

words = model[0].get_feature_names_out()
best = np.argsort(-svm.coef_, axis=1)[:, :5]
for topic, columns in zip(svm.classes_, best, strict=True):
    print(f"{topic:9}", *words[columns])

try:
    import matplotlib.pyplot as plt
except ModuleNotFoundError:
    raise SystemExit("the picture needs matplotlib") from None

shown = best[:, :3].ravel()
figure, ax = plt.subplots(figsize=(7.2, 2.6))
image = ax.imshow(svm.coef_[:, shown], cmap="PuOr", vmin=-4, vmax=4, aspect="auto")
ax.set_xticks(range(len(shown)), words[shown], rotation=60, ha="right")
ax.set_yticks(range(len(names)), svm.classes_)
ax.grid(False)
ax.set_title("weights of the strongest words")
figure.colorbar(image)
plt.show()
