"""LabelRanker with its defaults beside one-vs-rest logistic regression with the defaults of scikit-learn.

    python benchmarks/labels_baseline.py --data DIR            # bibtex.zip and eurlex-4k.zip are in DIR
    python benchmarks/labels_baseline.py --sets texts-50 texts-2000 --seeds 0 1 2
    python benchmarks/labels_baseline.py --data DIR --sets eurlex-4k --rows 3000 --test-rows 1000

One row per data set and method: NDCG@1, @3 and @5, the seconds to fit, and the difference with a 95 % interval, paired
by row and averaged over seeds. Logistic regression reads the given features, or ``TfidfVectorizer`` of the texts.
Labels without training rows come last. Synthetic texts differ between seeds; of the other sets only the seed of the
model differs. ``--rows`` uses a part of the training rows, for both. With ``--validation`` rows of the training part
replace the test part, to choose settings.
"""

import argparse
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import MultiLabelBinarizer

from songrank import LabelRanker
from songrank.data import CatalogueSplit, Dataset, prepare

CUTOFFS = (1, 3, 5)
FILES = {"bibtex": ("arff", "bibtex.zip"), "eurlex-4k": ("xmc", "eurlex-4k.zip")}
# Rows, labels, words of each label, noise words.
TEXTS = {
    "texts-50": (50, 5, 3, 300),
    "texts-200": (200, 20, 5, 300),
    "texts-2000": (2000, 40, 10, 300),
}


@dataclass(frozen=True)
class Task:
    """Training and test rows: texts or features, and indicator matrices [rows, labels]."""

    train: Any
    train_labels: Any
    test: Any
    test_labels: Any

    @property
    def texts(self) -> bool:
        return isinstance(self.train, list)


def synthetic(name: str, seed: int) -> Task:
    """Texts with 1 or 2 labels, some words of each label, and 20 noise words with Zipf frequencies."""
    rows, labels, own, noise = TEXTS[name]
    random = np.random.default_rng(seed)
    chance = 1 / np.arange(1, noise + 1)
    texts, sets = [], []
    for _ in range(rows + 1000):
        chosen = random.choice(labels, size=random.integers(1, 3), replace=False).tolist()
        words = [
            f"l{label}w{word}"
            for label in chosen
            for word in random.choice(own, size=random.integers(1, own + 1), replace=False)
        ]
        words += [f"noise{word}" for word in random.choice(noise, size=20, p=chance / chance.sum())]
        random.shuffle(words)
        texts.append(" ".join(words))
        sets.append(chosen)
    target = MultiLabelBinarizer(classes=range(labels), sparse_output=True).fit_transform(sets)
    return Task(texts[:rows], target[:rows], texts[rows:], target[rows:])


def matrices(dataset: Dataset, name: str) -> tuple[Any, Any]:
    """Features and labels of a split."""
    part = dataset[name]
    assert isinstance(part, CatalogueSplit)
    assert part.features is not None
    table, shape = part.features, (part.num_queries, part.num_features)
    X = scipy.sparse.csr_matrix((table["value"].numpy(), table["index"].numpy(), table.offsets.numpy()), shape)
    ones = np.ones(part.num_pairs, np.float32)
    Y = scipy.sparse.csr_matrix((ones, part.item.numpy(), part.offsets.numpy()), (part.num_queries, dataset.num_items))
    return X, Y


def given(name: str, options: argparse.Namespace) -> Task:
    kind, file = FILES[name]
    with tempfile.TemporaryDirectory() as work:
        dataset = prepare(kind, options.data / file, Path(work) / "data")
        (X, Y), (Z, T) = matrices(dataset, "train"), matrices(dataset, "test")
        X, Y, Z, T = X.copy(), Y.copy(), Z.copy(), T.copy()
    order = np.random.default_rng(0).permutation(X.shape[0])
    if options.validation:
        held, order = np.split(order, [X.shape[0] // 10])
        Z, T = X[held], Y[held]
    order = np.sort(order[: options.rows])
    return Task(X[order], Y[order], Z[: options.test_rows], T[: options.test_rows])


def ndcg(scores: Any, target: Any) -> Any:
    """[cutoffs, rows]: NDCG of rows with labels."""
    some = np.flatnonzero(np.diff(target.indptr))
    hits = target[some].toarray() > 0
    best = np.argsort(-scores[some], axis=1, kind="stable")[:, : max(CUTOFFS)]
    found, total = np.take_along_axis(hits, best, 1), hits.sum(1)
    discount = 1 / np.log2(np.arange(2, best.shape[1] + 2))
    ideal = np.concatenate([[0.0], np.cumsum(discount)])
    return np.stack(
        [(found[:, :k] * discount[:k]).sum(1) / ideal[np.minimum(total, min(k, best.shape[1]))] for k in CUTOFFS]
    )


def regression(task: Task) -> tuple[Any, float]:
    begun = time.perf_counter()
    train, test = task.train, task.test
    if task.texts:
        vectors = TfidfVectorizer()
        train = vectors.fit_transform(train)
        test = vectors.transform(test)
    with warnings.catch_warnings(action="ignore"):  # labels without rows, and iterations
        fitted = OneVsRestClassifier(LogisticRegression()).fit(train, task.train_labels)
    scores = fitted.decision_function(test)
    scores[:, np.asarray(task.train_labels.sum(0)).ravel() == 0] = -np.inf  # scikit-learn gives them 0, above most
    return ndcg(scores, task.test_labels), time.perf_counter() - begun


def ours(task: Task, seed: int) -> tuple[Any, float, str]:
    begun = time.perf_counter()
    fitted = LabelRanker(random_state=seed, device="cpu", verbose=0).fit(task.train, task.train_labels)
    seconds = time.perf_counter() - begun
    blended = fitted.folder_.info["model"]["name"] == "blend"
    chosen = "blend" if blended else "MLP" if fitted.recipe_.model["hidden"] else "linear"
    return ndcg(fitted.decision_function(task.test), task.test_labels), seconds, chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="directory of the archives")
    parser.add_argument("--sets", nargs="+", choices=(*TEXTS, *FILES), default=[*TEXTS, *FILES])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rows", type=int, help="maximum number of training rows of a given set")
    parser.add_argument("--test-rows", type=int, help="maximum number of test rows of a given set")
    parser.add_argument("--validation", action="store_true", help="evaluate on a tenth of the training rows")
    options = parser.parse_args()
    print("| data | method | NDCG@1 | @3 | @5 | seconds |\n|---|---|---|---|---|---|")
    for name in options.sets:
        values: dict[str, list[Any]] = {"regression": [], "ours": []}
        seconds: dict[str, list[float]] = {"regression": [], "ours": []}
        chosen = set()
        for seed in options.seeds:
            task = synthetic(name, seed) if name in TEXTS else given(name, options)
            if name in TEXTS or not values["regression"]:
                reference = regression(task)
            found = ours(task, seed)
            chosen.add(found[2])
            for method, (value, took, *_) in (("regression", reference), ("ours", found)):
                values[method].append(value)
                seconds[method].append(took)
        # Rows of a given set are the same in all seeds: seeds are averaged first.
        join = (lambda parts: np.concatenate(parts, 1)) if name in TEXTS else (lambda parts: np.mean(parts, 0))
        base, best = join(values["regression"]), join(values["ours"])
        apart = best - base
        radius = 1.96 * apart.std(1, ddof=1) / np.sqrt(apart.shape[1])
        mean = {method: float(np.mean(times)) for method, times in seconds.items()}
        row("logistic regression", name, [f"{value:.4f}" for value in base.mean(1)], mean["regression"])
        row(f"LabelRanker ({', '.join(sorted(chosen))})", "", [f"{value:.4f}" for value in best.mean(1)], mean["ours"])
        spans = zip(apart.mean(1), radius, strict=True)
        row("difference", "", [f"{centre:+.4f} [{centre - half:+.4f}, {centre + half:+.4f}]" for centre, half in spans])


def row(method: str, name: str, cells: list[str], seconds: float | None = None) -> None:
    time_used = "" if seconds is None else f"{seconds:.0f}"
    print(f"| {name} | {method} | {' | '.join(cells)} | {time_used} |", flush=True)


if __name__ == "__main__":
    main()
