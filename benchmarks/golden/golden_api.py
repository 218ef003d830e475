"""The estimators, losses, samplers and metrics of the public API, for golden.py."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from golden_values import Golden, array_digest, digest
from safetensors.torch import load_file

import songrank
from songrank.losses.registry import LOSSES

library: Any = songrank  # its estimators are imported lazily, so mypy does not know them


def documents(seed: int) -> tuple[Any, Any, Any]:
    generator = np.random.default_rng(seed)
    group = generator.integers(3, 9, 24)
    features = generator.normal(size=(group.sum(), 4)).astype(np.float32)
    return features, np.clip(np.round(features[:, 0] + 0.3 * generator.normal(size=len(features))), 0, 3), group


def labelled() -> tuple[Any, list[list[str]], list[str]]:
    features = np.random.default_rng(3).normal(size=(60, 6)).astype(np.float32)
    sets = [
        [name for name, value in zip(("wine", "tax", "sea", "law"), row, strict=False) if value > 0.3]
        for row in features
    ]
    return features, sets, [" ".join(["the", *names, "of", f"word{at % 7}"]) for at, names in enumerate(sets)]


def table(answer: Any) -> str:
    return (answer if isinstance(answer, pl.DataFrame) else pl.DataFrame(dict(answer))).write_csv()


def fit_estimators(golden: Golden) -> None:
    """Fit each estimator, save it among the artefacts, and record the attributes of the fit."""
    clicks, (features, labels, group), (rows, sets, texts) = pl.read_csv("raw/clicks.csv"), documents(0), labelled()
    common: dict[str, Any] = {"epochs": 2, "verbose": 0, "device": "cpu"}
    of_items = {"model.dim": 4, "model.hidden": [4], "batch.relevant": 4, "batch.irrelevant": 6, "warm_up.epochs": 1}
    short = {"warm_up.epochs": 1, "batch.queries": 16}
    hidden = {"model.hidden": [4], "warm_up.epochs": 1, "batch.queries": 8}
    sequence = {"name": "sequence", "dim": 4, "blocks": 1, "heads": 1, "length": 5}
    cnn = {"model.dim": 4, "model.filters": 2, "model.bottleneck": 4, **short}
    documents_of = {"group": group, "eval_set": [documents(1)[:2]], "eval_group": [documents(1)[2]]}
    cases: dict[str, Callable[[], Any]] = {
        "recommender": lambda: library.Recommender(model="neumf", options=of_items, **common).fit(clicks),
        "recommender-sequence": lambda: library.Recommender(model=sequence, options=short, **common).fit(clicks),
        "recommender-default": lambda: library.Recommender(options=short, **common).fit(clicks),
        "recommender-members": lambda: library.Recommender(model="neumf", options=of_items, members=2, **common).fit(
            clicks
        ),
        "documents": lambda: library.DocumentRanker(options=hidden, **common).fit(features, labels, **documents_of),
        "documents-lambdarank": lambda: library.DocumentRanker(
            "lambdarank", options=hidden, learning_rate=0.01, random_state=5, **common
        ).fit(features, labels, group=group),
        "labels": lambda: library.LabelRanker(options=hidden, **common).fit(rows, sets),
        "labels-text": lambda: library.LabelRanker(options=cnn, **common).fit(texts, sets),
    }
    for name, fit in cases.items():
        fitted = fit()
        for fact in ("best_score_", "best_epoch_", "history_", "evals_result_", "n_features_in_"):
            if hasattr(fitted, fact):
                golden.put(f"estimator/{name}/{fact}", golden.clean(repr(getattr(fitted, fact))))
        golden.put(
            f"estimator/{name}/recipe", golden.clean(json.dumps({**fitted.recipe_.model_dump(mode="json"), "data": ""}))
        )
        fitted.save(Path("estimators") / name)
        for tensor, values in load_file(Path("estimators") / name / "model.safetensors").items():
            golden.put(f"estimator/{name}/weights/{tensor}", array_digest(values))


def ask_estimators(golden: Golden) -> None:
    """Predictions of saved estimators, and the result of partial_fit."""
    clicks, (features, labels, group), (rows, sets, texts) = pl.read_csv("raw/clicks.csv"), documents(2), labelled()
    histories = pl.read_csv("raw/histories.csv")
    for folder in sorted(Path("estimators").iterdir()):
        kind = folder.name.split("-")[0]
        put = partial(answer, golden, folder.name)
        if kind == "documents":
            ranker = library.DocumentRanker.load(folder, device="cpu")
            put("predict", array_digest(ranker.predict(features, group=group)))
            put("evaluate", ranker.evaluate(features, labels, group, ["ndcg@3", "mrr"]).values)
        elif kind == "labels":
            labeller, given = (
                library.LabelRanker.load(folder, device="cpu"),
                texts if folder.name.endswith("text") else rows,
            )
            put("predict", array_digest(labeller.predict(given, 2)))
            put("decision", array_digest(labeller.decision_function(given)))
            put("rank", digest(table(labeller.rank(given, 3))))
            put("evaluate", labeller.evaluate(given, sets, ["ndcg@3"]).values)
        else:
            recommender = library.Recommender.load(folder, device="cpu")
            put("recommend", digest(table(recommender.recommend(k=4))))
            put("new-users", table(recommender.recommend(["u3", "nobody"], 2, exclude_seen=False, deny=["i1"])))
            put("predict", array_digest(recommender.predict(clicks)))
            put("evaluate", recommender.evaluate(clicks.head(100), metrics=["ndcg@5"]).values)
            if folder.name in ("recommender-sequence", "recommender-default"):
                put("recommend_for", table(recommender.recommend_for(histories, 3)))
            if folder.name != "recommender-members":
                recommender.partial_fit(clicks.tail(40), epochs=1)
                put("partial_fit", digest(table(recommender.recommend(k=4))))


def answer(golden: Golden, name: str, what: str, value: Any) -> None:
    golden.put(f"answers/{name}/{what}", value)


def record_api(golden: Golden) -> None:
    """Slates, losses and metrics."""
    generator = np.random.default_rng(1)
    pairs = np.unique(generator.integers(0, [30, 40], (300, 2)), axis=0)
    label = torch.from_numpy(generator.integers(1, 4, len(pairs)).astype(np.float32))
    relevance = songrank.Relevance.from_pairs(pairs[:, 0], pairs[:, 1], label, num_items=40)
    drawn = {k: list(songrank.SlateSampler(relevance, 8, relevant=3, irrelevant=6, seed=4, k=k)) for k in (None, 3)}
    slates = drawn[None]
    for at, slate in enumerate(slates):
        for name in ("query", "item", "label", "mask"):
            golden.put(f"api/slate {at}/{name}", array_digest(getattr(slate, name)))
    torch.manual_seed(0)
    scores = [torch.randn(slate.label.shape) for slate in slates * 2]
    own = {"KSONG": {"k": 3}, "FasterKSONG": {"k": 3, "points": 1}, "FasterSONG": {"points": 1}}
    sizes = {"num_pairs": relevance.num_pairs, "num_queries": relevance.num_queries, "queries_per_batch": 8}
    kinds = {kind.__name__: kind for kind in LOSSES.values()}
    for name, kind in sorted(kinds.items()):
        loss = kind.build(own.get(name, {}), sizes)
        for at, (slate, given) in enumerate(zip(drawn[own.get(name, {}).get("k")] * 2, scores, strict=True)):
            leaf = given.clone().requires_grad_()
            value = loss(leaf, slate)
            value.backward()
            golden.put(f"api/{name}/step {at}", f"{value.item()!r} {array_digest(leaf.grad)}")
        for key, state in loss.state_dict().items():
            golden.put(f"api/{name}/state {key}", array_digest(state))
    tied, labels = torch.randint(0, 4, (20, 9)).float(), torch.randint(0, 3, (20, 9)).float()
    names = [f"{name}{at}" for name in ("ndcg", "dcg", "mrr", "map", "recall", "hit_rate") for at in ("@1", "@4", "")]
    for ties in ("pessimistic", "stable"):
        for empty in ("skip", "zero"):
            found = songrank.metrics.evaluate_lists(tied, labels, metrics=names, ties=ties, empty=empty)
            golden.put(f"api/evaluate_lists/{ties} {empty}", found.values)
    every = torch.randn(30, 40)
    golden.put(
        "api/evaluate_catalogue",
        songrank.metrics.evaluate_catalogue(lambda q: every[q], relevance, metrics=names).values,
    )
