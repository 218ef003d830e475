"""Cost of a loss step (forward and backward on scores of 256 × 310, 10 relevant, memory for 18.6 million pairs).

Compared with the losses of libauc 2.0.1 in the same process, if it is installed (``pip install --no-deps
libauc==2.0.1``), measured with sampling for catalogues of 10³ to 10⁶ items, where it must be constant, and by number of
relevant items in the slate, where that of the losses with the exponential surrogate must be constant.
"""

import argparse
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from shapes import long_tailed
from timing import medians, table
from torch import Tensor

from songrank import KSONG, SONG, ListwiseCE, Relevance, Slate, SlateSampler, losses

QUERIES, ITEMS, PAIRS = 138_493, 26_744, 18_600_000
ROWS, RELEVANT, IRRELEVANT, K = 256, 10, 300, 300
_PAIRWISE = ("RankNet", "BPR", "LambdaRank", "LambdaLoss", "ApproxNDCG")
BASELINES = (*_PAIRWISE, "ListNet", "ListMLE", "SoftmaxCE", "SampledSoftmax", "PointwiseBCE", "GBCE")
SOFT_SORTS = ("NeuralNDCG", "PiRank")  # minutes per step on a CPU


def slate(device: str, relevant: int = RELEVANT) -> Slate:
    """Ratings, ids and counts of a batch of MovieLens-20M."""
    generator = torch.Generator().manual_seed(0)
    label = torch.zeros(ROWS, RELEVANT + IRRELEVANT)
    label[:, :relevant] = torch.randint(1, 6, (ROWS, relevant), generator=generator).float()
    made = Slate(
        query=torch.randperm(QUERIES, generator=generator)[:ROWS],
        item=torch.randint(0, ITEMS, label.shape, generator=generator),
        label=label,
        mask=torch.ones_like(label, dtype=torch.bool),
        pair=torch.randperm(PAIRS, generator=generator)[: ROWS * relevant].view(ROWS, relevant),
        list_size=torch.full((ROWS,), ITEMS),
        num_relevant=torch.randint(20, 300, (ROWS,), generator=generator),
        ideal_dcg=torch.rand(ROWS, generator=generator) * 50 + 50,
    )
    return made.to(device)


def step(loss: torch.nn.Module, scores: Tensor, batch: object) -> Callable[[], None]:
    def run() -> None:
        scores.grad = None
        loss(scores, batch).backward()

    return run


def peers(batch: Slate, device: str) -> dict[str, Any]:
    """Losses of libauc on the same batch, called as in its documentation."""
    try:
        from libauc.losses.ranking import ListwiseCELoss, NDCGLoss
    except ImportError:
        print("libauc is not installed: no comparison (pip install --no-deps libauc==2.0.1)")
        return {}
    assert batch.pair is not None
    identity = torch.zeros(batch.label.shape, dtype=torch.int64, device=device)
    identity[:, :RELEVANT] = batch.pair
    given = {
        "rating": batch.label,
        "user_id": batch.query,
        "num_pos_items": batch.num_relevant,
        "ideal_dcg": batch.ideal_dcg,
        "user_item_id": identity,
    }
    sizes = {"N": PAIRS, "num_user": QUERIES, "num_item": ITEMS, "num_pos": RELEVANT, "gamma0": 0.1, "device": device}
    made = {
        "libauc SONG": NDCGLoss(**sizes),
        "libauc K-SONG": NDCGLoss(**sizes, topk=K),
        "libauc ListwiseCE": ListwiseCELoss(N=PAIRS, num_pos=RELEVANT, gamma=0.1, device=device),
    }
    return {name: (loss, given) for name, loss in made.items()}


def side_by_side(device: str, rounds: int) -> None:
    batch = slate(device)
    for_k = replace(batch, k=K)
    scores = torch.randn(batch.label.shape, generator=torch.Generator().manual_seed(1)).to(device).requires_grad_()
    ours: dict[str, Any] = {
        "SONG": (SONG(PAIRS), batch),
        "K-SONG theoretical": (KSONG(PAIRS, QUERIES, K), for_k),
        "K-SONG practical": (KSONG(PAIRS, QUERIES, K, mode="practical"), for_k),
        "ListwiseCE (SOLC)": (ListwiseCE(PAIRS), batch),
        "SONG exponential": (SONG(PAIRS, surrogate="exponential"), batch),
        "K-SONG exponential": (KSONG(PAIRS, QUERIES, K, surrogate="exponential"), for_k),
    }
    steps = {name: step(loss.to(device), scores, given) for name, (loss, given) in ours.items()}
    theirs = {name: step(loss, scores, given) for name, (loss, given) in peers(batch, device).items()}
    result = medians({**theirs, **steps}, rounds)
    baseline = "libauc SONG" if theirs else None
    table(f"loss step, {ROWS} × {RELEVANT + IRRELEVANT}, {PAIRS:,} pairs, {device}", result, baseline)
    if theirs:
        for mine, other in (("SONG", "libauc SONG"), ("K-SONG theoretical", "libauc K-SONG")):
            print(f"  {mine}: {result[other] / result[mine]:.1f} × as fast as {other}")
    names = BASELINES if device == "cpu" else BASELINES + SOFT_SORTS
    listed = {name: step(getattr(losses, name)().to(device), scores, batch) for name in names}
    table("baselines, the same slate", medians(listed, max(rounds // 10, 2), 1))


def whole_step(relevance: Relevance, device: str) -> Callable[[], None]:
    """Sample a slate, score it with a table, SONG forward and backward."""
    sampler = SlateSampler(relevance, ROWS, RELEVANT, IRRELEVANT)
    loss = SONG(relevance.num_pairs).to(device)
    values = torch.randn(4096, device=device)
    batches = itertools.cycle(sampler.order(0)[: 8 * ROWS].view(8, ROWS))

    def run() -> None:
        drawn = sampler.draw(next(batches), 0)
        scores = values[(drawn.item * 31 + drawn.query.unsqueeze(1)) % 4096].requires_grad_()
        loss(scores, drawn).backward()

    return run


def growing_catalogue(device: str, rounds: int) -> None:
    sizes = (10**3, 10**4, 10**5, 10**6)
    steps = {
        f"{items:>9,} items": whole_step(long_tailed(20_000, items, 600_000).to(device), device) for items in sizes
    }
    table(f"sampling + SONG, {device}, by size of the catalogue", medians(steps, rounds))


def growing_relevant(device: str, rounds: int) -> None:
    """Steps of both surrogates on slates of the same size, with more and more relevant items."""
    scores = torch.randn(ROWS, RELEVANT + IRRELEVANT, generator=torch.Generator().manual_seed(1)).to(device)
    scores.requires_grad_()
    losses_of = {name: SONG(PAIRS, surrogate=name).to(device) for name in ("squared_hinge", "exponential")}
    steps = {
        f"{name}, {relevant:>3} relevant": step(loss, scores, slate(device, relevant))
        for name, loss in losses_of.items()
        for relevant in (5, 20, 80, 300)
    }
    table(f"SONG, {ROWS} × {RELEVANT + IRRELEVANT}, {device}, by relevant items in the slate", medians(steps, rounds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    side_by_side(options.device, options.rounds)
    growing_catalogue(options.device, options.rounds)
    growing_relevant(options.device, max(options.rounds // 4, 2))


if __name__ == "__main__":
    main()
