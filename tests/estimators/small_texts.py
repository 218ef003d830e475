"""Synthetic texts: each label has a few words of its own, mixed with noise words."""

import numpy as np


def label_texts(rows, labels=5, own=3, noise=50, per_row=1, length=8, seed=0):
    """Texts and their lists of labels; a text has all words of its labels."""
    random = np.random.default_rng(seed)
    texts, names = [], []
    for _ in range(rows):
        chosen = sorted(random.choice(labels, size=random.integers(1, per_row + 1), replace=False).tolist())
        words = [f"l{label}w{word}" for label in chosen for word in range(own)]
        words += [f"noise{word}" for word in random.integers(0, noise, length)]
        random.shuffle(words)
        texts.append(" ".join(words))
        names.append([f"label {label}" for label in chosen])
    return texts, names
