"""Data, models and training steps of the choice of defaults."""

from __future__ import annotations

import dataclasses
import io
import itertools
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from songrank import KSONG, Slate, SlateSampler
from songrank.functional import exact_threshold, smooth_threshold
from songrank.losses.base import RankingLoss

Config = dict[str, Any]
Record = dict[str, Any]
Array = np.ndarray[Any, Any]


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
                    f"{archive} has neither ratings.dat, u.data nor five LETOR parts; expected one of them"
                )
            arrays = _read_ratings(files.read(ratings[0])) if ratings else _read_letor([files.read(n) for n in texts])
        target = folder / f"{archive.stem}.npz"
        np.savez_compressed(target, **dict[str, Any](arrays))
        print(target, {name: array.shape for name, array in arrays.items()})


def _read_ratings(text: bytes) -> dict[str, Array]:
    """Leave-last-out by time, with ties in the order of the file; the last item of a user is dropped (for tests)."""
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
    """Features standardised within each query, NULL as the smallest value of the query (MIN of LETOR)."""
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
    """Separate factors for the product and for a hidden layer, whose item half is computed once per item."""

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
    """An MLP with layers 64 and 32 on the rows of a feature matrix; an item is a row."""

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
    """A training step. On a GPU, three eager steps precede the capture of a CUDA graph, which is replayed."""

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
    """Train and yield after each epoch, with learning rate × 0.25 half-way. Slates are drawn per epoch."""
    step = Step(model, loss, rate, decay)
    size = min(sampler.queries_per_batch, sampler.num_queries)
    model.train()
    for epoch in range(epochs):
        if first > 0 and epoch == (epochs + 1) // 2:
            step.slow_down(0.25)
        slate = sampler.draw(sampler.order(first + epoch), first + epoch)
        # Rows of an incomplete batch are dropped, so that all steps have the same shape.
        for start in range(0, sampler.num_queries - size + 1, size):
            step(slate, slice(start, start + size))
        model.eval()
        yield epoch + 1
        model.train()


@torch.no_grad()
def tracking(model: NeuMF, loss: KSONG, num_queries: int) -> dict[str, float]:
    """Mean distances of λ to the exact threshold and to λ̂, in standard deviations of the query's scores.

    ``selected`` is the median over queries of the number of items above λ, divided by K. Lists are scored as in
    training, with dropout, since λ tracks these scores.
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
