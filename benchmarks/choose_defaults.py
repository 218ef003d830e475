"""How the defaults of the losses with memory were chosen: on validation data only. The figures are in docs/defaults.md.

    cd benchmarks
    python choose_defaults.py prepare ml-1m.zip mq2008.zip --to data
    python choose_defaults.py catalogue data/ml-1m.npz --study offset --device cuda --out data/catalogue.jsonl
    python choose_defaults.py lists data/mq2008.npz --study offset --out data/lists.jsonl
    python choose_defaults.py report data/catalogue.jsonl data/lists.jsonl

Each finished run is one line of the output; what is there already is not run again. ``--shard 0/4`` takes every fourth
seed and configuration, so that several processes can share a study, each with its own output. A run is a warm-up with
``ListwiseCE``, then a new head and the loss under study; warm-up, head and slates depend on the seed alone, so that
configurations can be compared seed by seed.
"""

from __future__ import annotations

import argparse
import base64
import copy
import dataclasses
import io
import itertools
import json
import math
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from songrank import KSONG, SONG, ListwiseCE, Relevance, Slate, SlateSampler
from songrank.functional import exact_threshold, list_weights, smooth_threshold, weighted_threshold
from songrank.losses.base import RankingLoss, Rows
from songrank.memory import moving_average
from songrank.metrics import evaluate_catalogue, evaluate_lists

Config = dict[str, Any]
Record = dict[str, Any]
Array = np.ndarray[Any, Any]

# ---- what is tried


def grid(**choices: list[Any]) -> list[Config]:
    """All combinations."""
    return [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]


def catalogue_studies() -> dict[str, list[Config]]:
    """Configurations by study; the first one of each K and mode is what the others are compared with."""
    ksong: dict[str, list[Any]] = {"loss": ["k-song"], "k": [300, 20], "mode": ["theoretical", "practical"]}
    trackers = [("newton", rate, 0.1) for rate in (0.1, 0.05, 0.3, 1.0)]
    trackers += [("gradient", rate, 0.1) for rate in (0.01, 0.1, 1.0)]
    trackers += [("newton", 0.3, 0.3), ("newton", 0.1, 1.0), ("newton", 0.3, 1.0), ("newton", 1.0, 1.0)]
    trackers += [("quantile", 0.3, 0.1), ("quantile", 0.1, 1.0), ("quantile", 0.3, 1.0), ("quantile", 1.0, 1.0)]
    trackers += [("balanced", 0.1, 0.1), ("balanced", 0.3, 0.3)]
    fixed: dict[str, list[Any]] = {**ksong, "threshold_rate": [0.3], "threshold_gamma": [1.0]}
    offsets = [None, 0.0, 4.0, 16.0, 64.0, 256.0, 1024.0, "relevant", "relevant/4"]
    return {
        "labels": grid(loss=["song"], rank_offset=[64.0, 0.0]),
        "offset": [*grid(loss=["song"], rank_offset=offsets), {"loss": "listwise-ce"}],
        "tracking": [
            {**config, "threshold_step": step, "threshold_rate": rate, "threshold_gamma": gamma}
            for step, rate, gamma in trackers
            for config in grid(**ksong)
        ],
        "k-offset": grid(**fixed, rank_offset=[None, 0.0, 16.0, 64.0, 256.0]),
        "tau": grid(**fixed, tau1=[0.1, 0.03, 0.3, 1.0]),
        "selector": grid(**fixed, selector=["sigmoid", "smooth_step"], selector_scale=[2.0, 1.0, 5.0]),
        "margin": grid(loss=["song"], margin=[1.0, 0.5, 2.0, 3.0], gamma=[0.1, 0.3]),
        "defaults": [{"loss": "song"}, *grid(**ksong)],
    }


def list_studies() -> dict[str, list[Config]]:
    """The same for short lists."""
    offsets = [None, 0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0, "size/2", "relevant"]
    return {
        "offset": [*grid(loss=["song"], margin=[1.0], rank_offset=offsets), {"loss": "listwise-ce"}],
        "k-offset": grid(
            loss=["k-song"], k=[5], mode=["theoretical", "practical"], rank_offset=[None, 0.0, 16.0, 64.0]
        ),
        "margin": grid(loss=["song"], rank_offset=[None, 0.0, 16.0], margin=[1.0, 2.0, 3.0], gamma=[0.1, 0.3]),
        "tracking": [
            {"loss": "k-song", "k": 5, "threshold_step": step, "threshold_rate": rate, "threshold_gamma": gamma}
            for step, rate, gamma in (("newton", 0.1, 0.1), ("newton", 0.3, 1.0), ("balanced", 0.3, 0.3))
        ],
    }


RULES: dict[str, Callable[[Slate], Tensor]] = {
    "size/2": lambda slate: slate.list_size / 2,
    "relevant": lambda slate: slate.num_relevant.float(),
    "relevant/4": lambda slate: slate.num_relevant / 4,
}


class RuleSONG(SONG):
    """SONG with a rank offset that is a function of the list."""

    rule: str

    def _ndcg(self, u: Tensor, slate: Slate, dtype: torch.dtype, rank_offset: Any = None) -> tuple[Tensor, Tensor]:
        offset: Any = RULES[self.rule](slate).to(dtype).unsqueeze(1) if rank_offset is None else rank_offset
        return super()._ndcg(u, slate, dtype, rank_offset=offset)


class QuantileKSONG(KSONG):
    """K-SONG whose λ is a moving average of the slate's own weighted (K+1)-th largest score, of weight η₀."""

    def step(self, scores: Tensor, slate: Slate, rows: Rows) -> tuple[Tensor, Rows]:
        value, moved = super().step(scores, slate, rows)
        weight = list_weights(slate.label, slate.mask, slate.list_size.float(), slate.num_relevant.float())
        counts = weight * slate.list_size.unsqueeze(1)
        sample = weighted_threshold(scores.detach(), counts, self.problem.k, self.problem.epsilon)
        threshold = moving_average(rows["threshold"], sample, self.threshold_rate)
        chosen = self.problem.k < slate.list_size
        return value, {**moved, "threshold": torch.where(chosen, threshold, rows["threshold"])}


def make_loss(config: Config, relevance: Relevance) -> RankingLoss:
    options = {name: value for name, value in config.items() if name != "loss"}
    if config["loss"] == "listwise-ce":
        return ListwiseCE(relevance.num_pairs, **options).to(relevance.device)
    loss: SONG
    if config["loss"] == "k-song":
        # "balanced" is Newton with ∇λ divided by the curvature of the slate; the others divide by s, as eq. 5 has it.
        step = options.pop("threshold_step", None)
        if step is not None:
            options["implicit"] = "slate" if step == "balanced" else "memory"
        if step in ("newton", "gradient"):
            options["threshold_step"] = step
        kind = QuantileKSONG if step == "quantile" else KSONG
        loss = kind(relevance.num_pairs, relevance.num_queries, **options)
    elif isinstance(options.get("rank_offset"), str):
        rule = options.pop("rank_offset")
        loss = RuleSONG(relevance.num_pairs, **options)
        loss.rule = rule
    else:
        loss = SONG(relevance.num_pairs, **options)
    return loss.to(relevance.device)


# ---- data


def prepare(archives: list[Path], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for archive in archives:
        with zipfile.ZipFile(archive) as files:
            names = files.namelist()
            ratings = [name for name in names if name.endswith(("ratings.dat", "u.data"))]
            texts = sorted(name for name in names if name.endswith(".txt"))
            if not ratings and len(texts) != 5:
                raise SystemExit(
                    f"{archive} holds neither ratings.dat, u.data nor five LETOR parts; expected one of them"
                )
            arrays = _read_ratings(files.read(ratings[0])) if ratings else _read_letor([files.read(n) for n in texts])
        target = folder / f"{archive.stem}.npz"
        np.savez_compressed(target, **dict[str, Any](arrays))
        print(target, {name: array.shape for name, array in arrays.items()})


def _read_ratings(text: bytes) -> dict[str, Array]:
    """Leave-last-out by time, ties in the order of the file: the last item of a user is dropped (it is for tests)."""
    table = np.loadtxt(io.StringIO(text.decode("latin-1").replace("::", " ")), dtype=np.int64)
    _, user = np.unique(table[:, 0], return_inverse=True)
    items, item = np.unique(table[:, 1], return_inverse=True)
    order = np.lexsort((np.arange(len(user)), table[:, 3], user))
    user, item, rating = user[order], item[order], table[order, 2]
    from_end = np.searchsorted(user, user, side="right") - 1 - np.arange(len(user))
    train, valid = from_end >= 2, from_end == 1
    return {
        "query": user[train].astype(np.int32),
        "item": item[train].astype(np.int32),
        "label": rating[train].astype(np.float32),
        "valid_query": user[valid].astype(np.int32),
        "valid_item": item[valid].astype(np.int32),
        "num_items": np.array([len(items)]),
    }


def _read_letor(parts: list[bytes]) -> dict[str, Array]:
    """Features standardised within each query, NULL as the query's smallest value (LETOR's MIN)."""
    features, labels, lengths, part_of = [], [], [], []
    for part, text in enumerate(parts):
        lines = [line.split("#")[0].split() for line in text.decode("latin-1").splitlines()]
        for _, group in itertools.groupby((line for line in lines if line), key=lambda line: line[1]):
            rows = list(group)
            values = np.array([[float(f.split(":")[1].replace("NULL", "nan")) for f in row[2:]] for row in rows])
            lowest = np.where(np.isnan(values).all(0), 0.0, np.nanmin(np.where(np.isnan(values), np.inf, values), 0))
            values = np.where(np.isnan(values), lowest, values)
            features.append((values - values.mean(0)) / np.maximum(values.std(0), 1e-6))
            labels += [float(row[0]) for row in rows]
            lengths.append(len(rows))
            part_of.append(part)
    return {
        "features": np.concatenate(features).astype(np.float32),
        "label": np.array(labels, dtype=np.float32),
        "length": np.array(lengths),
        "part": np.array(part_of),
    }


# ---- models


class NeuMF(nn.Module):
    """Separate factors for the product and for one hidden layer, whose item half is computed once per item."""

    def __init__(self, num_queries: int, num_items: int, width: int = 64, dropout: float = 0.2) -> None:
        super().__init__()
        self.query_product, self.query_hidden = nn.Embedding(num_queries, width), nn.Embedding(num_queries, width)
        self.item_product, self.item_hidden = nn.Embedding(num_items, width), nn.Embedding(num_items, width)
        self.hidden = nn.Linear(2 * width, width)
        self.head = nn.Linear(2 * width, 1, bias=False)
        self.dropout = nn.Dropout(dropout)
        for name, parameter in self.named_parameters():
            nn.init.zeros_(parameter) if name.endswith("bias") else nn.init.normal_(parameter, std=0.01)

    def reset_head(self) -> None:
        nn.init.normal_(self.head.weight, std=0.01)

    def forward(self, query: Tensor, item: Tensor) -> Tensor:
        by_query, by_item, factors = self._halves(query)
        flat, shape = item.reshape(-1), (*item.shape, -1)
        hidden = by_query.unsqueeze(1) + by_item.index_select(0, flat).view(shape)
        product = self.item_product.weight.index_select(0, flat).view(shape) @ factors.unsqueeze(2)
        return product.squeeze(2) + self._top(hidden)

    def score_all(self, query: Tensor) -> Tensor:
        return torch.cat([self._score_all(part) for part in torch.split(query, 512)])

    def _score_all(self, query: Tensor) -> Tensor:
        by_query, by_item, factors = self._halves(query)
        return factors @ self.item_product.weight.T + self._top(by_query.unsqueeze(1) + by_item)

    def _halves(self, query: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        width = self.hidden.out_features
        for_query, for_item = torch.split(self.hidden.weight, width, 1)
        by_query = self.query_hidden(query) @ for_query.T + self.hidden.bias
        return by_query, self.item_hidden.weight @ for_item.T, self.query_product(query) * self.head.weight[0, :width]

    def _top(self, hidden: Tensor) -> Tensor:
        out: Tensor = self.dropout(torch.relu(hidden)) @ self.head.weight[0, self.hidden.out_features :]
        return out


class DocumentMLP(nn.Module):
    """64-32 on the rows of a feature matrix; an item is a row."""

    def __init__(self, features: Tensor) -> None:
        super().__init__()
        self.features = features
        self.body = nn.Sequential(nn.Linear(features.shape[1], 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.head = nn.Linear(32, 1)

    def reset_head(self) -> None:
        self.head.reset_parameters()

    def forward(self, query: Tensor, item: Tensor) -> Tensor:
        scores: Tensor = self.head(self.body(self.features[item])).squeeze(-1)
        return scores


Model = NeuMF | DocumentMLP

# ---- training

FIELDS = ("query", "item", "label", "mask", "pair", "column", "list_size", "num_relevant", "ideal_dcg")


class Step:
    """One training step. On a GPU the first three run as they are, and then one is recorded and replayed."""

    def __init__(self, model: Model, loss: RankingLoss, rate: float, decay: float) -> None:
        self.model, self.loss = model, loss
        device = next(model.parameters()).device
        self.record = device.type == "cuda"
        self.rate = torch.tensor(rate, device=device) if self.record else rate
        self.optimiser = torch.optim.Adam(
            model.parameters(), lr=self.rate, weight_decay=decay, capturable=self.record, fused=self.record
        )
        self.done = 0
        self.side = torch.cuda.Stream() if self.record else None  # type: ignore[no-untyped-call]
        self.graph: torch.cuda.CUDAGraph | None = None
        self.slate: Slate | None = None

    def slow_down(self, factor: float) -> None:
        if isinstance(self.rate, Tensor):
            self.rate.mul_(factor)
        else:
            for group in self.optimiser.param_groups:
                group["lr"] *= factor

    def __call__(self, slate: Slate, rows: slice) -> None:
        """Train on these rows of the slate."""
        if not self.record:
            return self._run(cut(slate, rows))
        assert self.side is not None
        if self.slate is None:
            part = cut(slate, rows)
            self.slate = dataclasses.replace(part, **{name: getattr(part, name).clone() for name in FIELDS})
        fixed = self.slate
        torch._foreach_copy_([getattr(fixed, n) for n in FIELDS], [getattr(slate, n)[rows] for n in FIELDS])
        if self.graph is not None:
            self.graph.replay()
        elif self.done < 3:
            self.side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.side):
                self._run(fixed)
            torch.cuda.current_stream().wait_stream(self.side)
        else:
            self.graph = torch.cuda.CUDAGraph()
            self.optimiser.zero_grad(set_to_none=True)
            with torch.cuda.graph(self.graph):
                self.loss(self.model(fixed.query, fixed.item), fixed).backward()
                self.optimiser.step()
            self.graph.replay()
        self.done += 1

    def _run(self, slate: Slate) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        self.loss(self.model(slate.query, slate.item), slate).backward()
        self.optimiser.step()


def cut(slate: Slate, rows: slice) -> Slate:
    return dataclasses.replace(slate, **{name: getattr(slate, name)[rows] for name in FIELDS})


def train(
    model: Model, loss: RankingLoss, sampler: SlateSampler, epochs: int, rate: float, decay: float, first: int = 0
) -> Iterator[int]:
    """Train, pausing after each epoch; ×0.25 half-way. An epoch's slates are drawn at once."""
    step = Step(model, loss, rate, decay)
    size = min(sampler.queries_per_batch, sampler.num_queries)
    model.train()
    for epoch in range(epochs):
        if first > 0 and epoch == (epochs + 1) // 2:
            step.slow_down(0.25)
        slate = sampler.draw(sampler.order(first + epoch), first + epoch)
        # Rows that do not fill a batch wait for another epoch: one shape for all steps.
        for start in range(0, sampler.num_queries - size + 1, size):
            step(slate, slice(start, start + size))
        model.eval()
        yield epoch + 1
        model.train()


@torch.no_grad()
def tracking(model: NeuMF, loss: KSONG, num_queries: int) -> dict[str, float]:
    """How far λ is from the exact threshold and from λ̂, in standard deviations of the query's scores: means.

    ``selected`` is the median over queries of how many items score above λ, over K. The lists are scored as they
    are in training, dropout included: that is what λ is asked to follow.
    """
    model.train()
    k, parts = loss.problem.k, defaultdict(list)
    everyone = torch.arange(num_queries, device=next(model.parameters()).device)
    for query in torch.split(everyone, 2048):
        scores, stored = model.score_all(query), loss.threshold.read(query)
        known = ~stored.isnan()
        scores, stored, centre = scores[known], stored[known], loss.centre.read(query)[known]
        exact = exact_threshold(scores, k)
        smooth = smooth_threshold(scores, loss.problem, centre=centre, iterations=40)
        spread = scores.std(-1)
        parts["error"].append((stored - exact).abs() / spread)
        parts["bias"].append((stored - exact) / spread)
        parts["error_smooth"].append((stored - smooth).abs() / spread)
        parts["smoothing"].append((smooth - exact) / spread)
        parts["selected"].append((scores > stored.unsqueeze(1)).sum(-1) / k)
        parts["spread"].append(spread)
    model.eval()
    found = {name: torch.cat(values) for name, values in parts.items()}
    return {name: round(float(v.median() if name == "selected" else v.mean()), 5) for name, v in found.items()}


# ---- the two tasks


@dataclasses.dataclass
class Catalogue:
    """A user ranks all items; one item of each user is held out for validation."""

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
            "per_query": _pack(best[1]),
        }

    def evaluate(self, model: NeuMF) -> Array:
        memory = 2**33 if self.device == "cuda" else 2**28
        found = evaluate_catalogue(model.eval(), self.targets, metrics="ndcg@20", memory=memory)
        return found.per_query["ndcg@20"].cpu().numpy()


@dataclasses.dataclass
class Lists:
    """A query ranks its own documents. Fold k trains on parts k, k+1, k+2 and is validated on k+3; k+4 is not read."""

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


# ---- running and reporting


def run_all(task: Catalogue | Lists, study: list[Config], args: argparse.Namespace, settings: Config) -> None:
    done = {_key(record) for record in _read([args.out])} if args.out.exists() else set()
    todo = [{"config": config, "seed": seed, **settings} for seed in args.seeds for config in study]
    for plan in todo[args.shard[0] :: args.shard[1]]:
        if _key(plan) in done:
            continue
        begin = time.perf_counter()
        record = {**plan, **task.run(plan["config"], plan["seed"]), "seconds": round(time.perf_counter() - begin, 2)}
        with args.out.open("a") as file:
            file.write(json.dumps(record) + "\n")
        shown = {name: round(value, 5) for name, value in record["metrics"].items()}
        print(args.study, json.dumps(plan["config"]), plan["seed"], shown, f"{record['seconds']} s", flush=True)


def _key(record: Record) -> str:
    named = ("task", "config", "seed", "data", "labels", "warmup", "epochs")
    return json.dumps([record.get(name) for name in named], sort_keys=True)


def _read(files: list[Path]) -> list[Record]:
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def _pack(values: Array) -> str:
    return base64.b64encode(values.astype(np.float16).tobytes()).decode()


def _unpack(text: str) -> Array:
    return np.frombuffer(base64.b64decode(text), dtype=np.float16).astype(np.float64)


def report(files: list[Path]) -> None:
    """One table per study: mean ± sd over seeds, and the difference from the study's first configuration, by seed.

    The last column is that difference with its standard error over users (each user's mean over seeds), where known.
    """
    studies: dict[str, dict[str, dict[int, Record]]] = defaultdict(lambda: defaultdict(dict))
    for record in sorted(_read(files), key=_place):
        title = " ".join(str(record.get(name, "")) for name in ("task", "data", "labels", "study", "warmup", "epochs"))
        studies[title][json.dumps(record["config"])][record["seed"]] = record
    for title, configs in studies.items():
        print(f"\n## {title}")
        names = list(next(iter(next(iter(configs.values())).values()))["metrics"])
        first: dict[Any, dict[int, Record]] = {}
        for text, runs in configs.items():
            config = json.loads(text)
            base = first.setdefault((config.get("k"), config.get("mode")), runs)
            cells = [_cell(name, runs, base) for name in names]
            shared = sorted(set(runs) & set(base))
            if "per_query" in runs[shared[0]] and runs is not base:
                gaps = [_unpack(runs[s]["per_query"]) - _unpack(base[s]["per_query"]) for s in shared]
                gap = np.mean(gaps, axis=0)
                cells.append(f"{gap.mean():+.4f} ± {gap.std() / math.sqrt(len(gap)):.4f}")
            print(" | ".join([text, str(len(runs)), *cells]))
            for line in _tracking_lines(runs):
                print("    " + line)


def _place(record: Record) -> tuple[str, str, int]:
    """Where a record stands in its study."""
    study = (list_studies() if record["task"] == "lists" else catalogue_studies())[record["study"]]
    return record["task"] + record["data"], record["study"], study.index(record["config"])


def _cell(name: str, runs: dict[int, Record], base: dict[int, Record]) -> str:
    values = [run["metrics"][name] for run in runs.values()]
    text = f"{name} {np.mean(values):.4f} ± {np.std(values, ddof=min(1, len(values) - 1)):.4f}"
    shared = sorted(set(runs) & set(base))
    if runs is base or not shared:
        return text
    gaps = [runs[seed]["metrics"][name] - base[seed]["metrics"][name] for seed in shared]
    return f"{text} ({np.mean(gaps):+.4f} ± {np.std(gaps, ddof=min(1, len(gaps) - 1)):.4f})"


def _tracking_lines(runs: dict[int, Record]) -> Iterator[str]:
    tables = [run.get("tracking") or [] for run in runs.values()]
    for rows in zip(*tables, strict=True):
        means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0] if name != "epoch"}
        yield f"epoch {rows[0]['epoch']}: " + ", ".join(f"{name} {value:.3f}" for name, value in means.items())


def _shard(text: str) -> tuple[int, int]:
    part, count = text.split("/")
    return int(part), int(count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("prepare", help="read ml-1m.zip, ml-100k.zip, mq2008.zip or mq2007-agg.zip")
    command.add_argument("archives", type=Path, nargs="+")
    command.add_argument("--to", type=Path, default=Path("benchmarks/data"))
    for name, studies, warmup, epochs in (
        ("catalogue", catalogue_studies(), 60, 180),
        ("lists", list_studies(), 20, 60),
    ):
        command = commands.add_parser(name)
        command.add_argument("data", type=Path, help="what prepare made")
        command.add_argument("--study", choices=list(studies), required=True)
        command.add_argument("--out", type=Path, required=True, help="JSON lines, appended to")
        command.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
        command.add_argument("--shard", type=_shard, default=(0, 1), help="i/n")
        command.add_argument("--warmup", type=int, default=warmup)
        command.add_argument("--epochs", type=int, default=epochs)
        command.add_argument("--labels", choices=["rating", "one"], default="rating")
        command.add_argument("--device", default="cpu")
    command = commands.add_parser("report", help="tables from outputs")
    command.add_argument("files", type=Path, nargs="+")
    args = parser.parse_args()

    if args.command == "prepare":
        return prepare(args.archives, args.to)
    if args.command == "report":
        return report(args.files)
    torch.backends.cuda.matmul.allow_tf32 = True
    with np.load(args.data) as stored:
        arrays = {name: stored[name] for name in stored.files}
    settings = {"task": args.command, "data": args.data.stem, "study": args.study}
    settings |= {"warmup": args.warmup, "epochs": args.epochs}
    if args.command == "lists":
        return run_all(Lists(arrays, args.warmup, args.epochs), list_studies()[args.study], args, settings)
    task = Catalogue(arrays, args.labels, args.device, args.warmup, args.epochs)
    run_all(task, catalogue_studies()[args.study], args, {**settings, "labels": args.labels})


if __name__ == "__main__":
    main()
