"""The two tasks of the choice of defaults: a catalogue, and short lists."""

from __future__ import annotations

import base64
import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from default_models import Array, Config, DocumentMLP, NeuMF, Record, tracking, train
from torch import Tensor

from songrank import KSONG, SONG, ListwiseCE, Relevance, Slate, SlateSampler
from songrank.functional import Surrogate, list_weights, weighted_threshold
from songrank.losses.base import RankingLoss, Rows
from songrank.losses.memory import moving_average
from songrank.losses.outer import NDCG
from songrank.losses.paper_form import PaperForm
from songrank.losses.top_k import ThresholdOptions
from songrank.metrics import evaluate_catalogue, evaluate_lists

RULES: dict[str, Callable[[Slate], Tensor]] = {
    "size/2": lambda slate: slate.list_size / 2,
    "relevant": lambda slate: slate.num_relevant.float(),
    "relevant/4": lambda slate: slate.num_relevant / 4,
}


@dataclasses.dataclass(frozen=True)
class RuleNDCG(NDCG):
    """NDCG with a rank offset that depends on the list."""

    rule: str = "size/2"

    def terms(self, u: Tensor, slate: Slate, surrogate: Surrogate) -> tuple[Tensor, Tensor]:
        if self.rank_offset is not None:  # in monitoring
            return super().terms(u, slate, surrogate)
        offset: Any = RULES[self.rule](slate).to(u.dtype).unsqueeze(1)
        return NDCG(offset).terms(u, slate, surrogate)


class QuantileKSONG(KSONG):
    """K-SONG whose λ is a moving average, with weight η₀, of the weighted (K+1)-th largest score of the slate."""

    def step(self, scores: Tensor, slate: Slate, rows: Rows) -> tuple[Tensor, Rows]:
        value, moved = super().step(scores, slate, rows)
        weight = list_weights(slate.label, slate.mask, slate.list_size.float(), slate.num_relevant.float())
        counts = weight * slate.list_size.unsqueeze(1)
        sample = weighted_threshold(scores.detach(), counts, self.problem.k, self.problem.epsilon)
        threshold = moving_average(rows["threshold"], sample, self.tracking.rate)
        chosen = self.problem.k < slate.list_size
        return value, {**moved, "threshold": torch.where(chosen, threshold, rows["threshold"])}


def make_loss(config: Config, relevance: Relevance) -> RankingLoss:
    options = {name: value for name, value in config.items() if name != "loss"}
    if config["loss"] == "listwise-ce":
        return ListwiseCE(relevance.num_pairs, **options).to(relevance.device)
    loss: SONG
    if config["loss"] == "k-song":
        # "balanced" is Newton with ∇λ divided by the curvature of the slate; the others divide by s, as in eq. 5.
        step = options.pop("threshold_step", None)
        form: dict[str, Any] = {} if step is None else {"implicit": "slate" if step == "balanced" else "memory"}
        if step in ("newton", "gradient"):
            form["threshold_step"] = step
        names = {"threshold_rate": "rate", "threshold_gamma": "gamma", "tau1": "tau1"}
        threshold = ThresholdOptions(**{names[name]: options.pop(name) for name in names.keys() & options.keys()})
        kind = QuantileKSONG if step == "quantile" else KSONG
        rows = relevance.num_pairs, relevance.num_queries
        loss = kind(*rows, threshold=threshold, form=PaperForm(**form), **options)
    elif isinstance(options.get("rank_offset"), str):
        rule = options.pop("rank_offset")
        loss = SONG(relevance.num_pairs, **options)
        loss.outer = RuleNDCG(rule=rule)
    else:
        loss = SONG(relevance.num_pairs, **options)
    return loss.to(relevance.device)


# ---- the two tasks


@dataclasses.dataclass
class Catalogue:
    """All items are ranked per user; one item per user is held out for validation."""

    arrays: dict[str, Array]
    labels: str
    device: str
    warmup: int
    epochs: int
    warmed: dict[int, NeuMF] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        data = self.arrays
        num_items = int(data["num_items"][0])
        self.num_queries = int(data["query"].max()) + 1
        label = data["label"] if self.labels == "rating" else np.ones_like(data["label"])
        pairs = data["query"], data["item"]
        self.relevance = Relevance.from_pairs(*pairs, label, self.num_queries, num_items).to(self.device)
        valid = data["valid_query"], data["valid_item"]
        targets = Relevance.from_pairs(*valid, None, self.num_queries, num_items, exclude=pairs)
        self.targets = targets.to(self.device)

    def sampler(self, seed: int, k: int | None) -> SlateSampler:
        return SlateSampler(self.relevance, 256, relevant=10, irrelevant=300, seed=seed, k=k)

    def warm(self, seed: int) -> NeuMF:
        if seed not in self.warmed:
            torch.manual_seed(seed)
            model = NeuMF(self.num_queries, self.relevance.num_items).to(self.device)
            loss = ListwiseCE(self.relevance.num_pairs).to(self.device)
            for _ in train(model, loss, self.sampler(seed, None), self.warmup, 1e-3, 1e-7):
                pass
            self.warmed[seed] = model
        return copy.deepcopy(self.warmed[seed])

    def run(self, config: Config, seed: int) -> Record:
        model = self.warm(seed)
        start, curve, track = self.evaluate(model).mean(), [], []
        torch.manual_seed(seed + 1000)
        model.reset_head()
        loss = make_loss(config, self.relevance)
        sampler = self.sampler(seed, config.get("k"))
        looks = {1, 3, 10, 20, 45, 90, self.epochs}
        best: tuple[float, Array] = (0.0, np.zeros(0))
        for epoch in train(model, loss, sampler, self.epochs, 4e-4, 1e-7, first=max(self.warmup, 1)):
            if epoch % 10 == 0 or epoch == self.epochs:
                values = self.evaluate(model)
                curve.append([epoch, round(float(values.mean()), 5)])
                if values.mean() >= best[0]:
                    best = float(values.mean()), values
            if isinstance(loss, KSONG) and epoch in looks:
                track.append({"epoch": epoch, **tracking(model, loss, self.num_queries)})
        late = [value for epoch, value in curve if epoch > 0.75 * self.epochs]
        return {
            "metrics": {"ndcg@20": best[0], "ndcg@20 late": float(np.mean(late)), "warm-up": float(start)},
            "curve": curve,
            "tracking": track,
            "per_query": pack(best[1]),
        }

    def evaluate(self, model: NeuMF) -> Array:
        memory = 2**33 if self.device == "cuda" else 2**28
        found = evaluate_catalogue(model.eval(), self.targets, metrics="ndcg@20", memory=memory)
        return found.per_query["ndcg@20"].cpu().numpy()


@dataclasses.dataclass
class Lists:
    """The documents of each query are ranked. Fold k trains on parts k to k+2, validates on k+3, and skips k+4."""

    arrays: dict[str, Array]
    warmup: int
    epochs: int
    warmed: dict[tuple[int, int], DocumentMLP] = dataclasses.field(default_factory=dict)

    def fold(self, fold: int) -> list[tuple[Relevance, Tensor]]:
        data = self.arrays
        groups = [(fold, fold + 1, fold + 2), (fold + 3,)]
        found = []
        for parts in groups:
            chosen = np.isin(data["part"], [part % 5 for part in parts])
            rows = np.repeat(chosen, data["length"])
            relevance = Relevance.from_lists(data["label"][rows], data["length"][chosen])
            found.append((relevance, torch.from_numpy(data["features"][rows])))
        return found

    def run(self, config: Config, seed: int) -> Record:
        folds = [self._run_fold(config, seed, fold) for fold in range(5)]
        return {"metrics": {name: float(np.mean([fold[name] for fold in folds])) for name in folds[0]}}

    def _run_fold(self, config: Config, seed: int, fold: int) -> dict[str, float]:
        (relevance, features), (held, held_features) = self.fold(fold)
        if (seed, fold) not in self.warmed:
            torch.manual_seed(seed)
            model, loss = DocumentMLP(features), make_loss({"loss": "listwise-ce"}, relevance)
            for _ in train(model, loss, self.sampler(relevance, seed), self.warmup, 1e-3, 1e-4):
                pass
            self.warmed[seed, fold] = model
        model = copy.deepcopy(self.warmed[seed, fold])
        torch.manual_seed(seed + 1000)
        model.reset_head()
        loss = make_loss(config, relevance)
        curve = []
        sampler = self.sampler(relevance, seed, config.get("k"))
        labels = torch.from_numpy(self.arrays["label"][np.repeat(self.held(fold), self.arrays["length"])])
        for epoch in train(model, loss, sampler, self.epochs, 1e-3, 1e-4, first=max(self.warmup, 1)):
            if epoch % 2 == 0 or epoch == self.epochs:
                with torch.no_grad():
                    scores = model.head(model.body(held_features)).squeeze(-1)
                lengths = held.list_size
                found = evaluate_lists(scores, labels, lengths=lengths, metrics=["ndcg@5", "ndcg@10"]).values
                curve.append((found["ndcg@5"], found["ndcg@10"]))
        values = np.array(curve)
        best, late = values[values.sum(1).argmax()], values[len(values) // 2 :].mean(0)
        return {"ndcg@5": best[0], "ndcg@10": best[1], "ndcg@5 late": late[0], "ndcg@10 late": late[1]}

    def held(self, fold: int) -> Array:
        return np.asarray(self.arrays["part"] == (fold + 3) % 5)

    def sampler(self, relevance: Relevance, seed: int, k: int | None = None) -> SlateSampler:
        return SlateSampler(relevance, 32, relevant="all", irrelevant="all", seed=seed, k=k)


def pack(values: Array) -> str:
    return base64.b64encode(values.astype(np.float16).tobytes()).decode()


def unpack(text: str) -> Array:
    return np.frombuffer(base64.b64decode(text), dtype=np.float16).astype(np.float64)
