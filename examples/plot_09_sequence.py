"""
A sequence, word by word
========================

A linear-chain conditional random field on a made-up language in which names follow a title. The ribbon shows the probability of each label at each word.
"""

import numpy as np

import taskloss as tl

rng = np.random.default_rng(0)


def sentence():
    """Names come in runs after a title, and are hard to tell from other words."""
    words, tags = [], []
    for _ in range(rng.integers(2, 5)):
        if rng.random() < 0.5:
            words.append("dr")
            tags.append("O")
            for i in range(rng.integers(1, 4)):
                words.append(rng.choice(["rose", "may", "bell"]))
                tags.append("B" if i == 0 else "I")
        words += list(rng.choice(["rose", "may", "sings", "rings"], size=2))
        tags += ["O", "O"]
    return words, tags


def features(words):
    return [{"word": w, "previous": words[t - 1] if t else "-"} for t, w in enumerate(words)]


pairs = [sentence() for _ in range(200)]
X, y = [features(words) for words, _ in pairs], [tags for _, tags in pairs]
tagger = tl.SequenceTagger().fit(X, y)
words, tags = max((sentence() for _ in range(8)), key=lambda pair: len(pair[0]))

# %%
# The likeliest label at each position; what is wrong is in red, with the truth behind it.
tl.plots.SequenceRibbonDisplay.from_estimator(tagger, features(words), words, y=tags)

# %%
# The same fit, judged by the ends of names as well: a missed one costs four, a false one one, on top of each wrong position. The probabilities are the same; the decisions need not be.
ends = np.array([[a != "O" and b != "I" for b in tagger.classes_] for a in tagger.classes_])
missed = ~ends[:, :, None, None] & ends[None, None]
false = ends[:, :, None, None] & ~ends[None, None]
cost = tl.losses.ChainCost(unary=1 - np.eye(3), pairwise=4.0 * missed + 1.0 * false)
tl.plots.SequenceRibbonDisplay.from_estimator(tagger, features(words), words, y=tags, loss=cost)
