"""Cost of sampling 256 × (10 + 300) items from a relevance with the shape of MovieLens-20M, and its memory."""

import argparse
import itertools
from collections.abc import Callable

import torch
from shapes import MOVIELENS_20M, long_tailed
from timing import medians, table

from songrank import Relevance, SlateSampler
from songrank.sampling.item_draws import Spread, taken_before_by_merge, taken_before_by_search


def megabytes(relevance: Relevance) -> float:
    """Megabytes of all tensors; shared tensors count once."""
    tensors = {id(value): value for value in vars(relevance).values() if isinstance(value, torch.Tensor)}
    tensors |= {id(value): value for value in relevance._ideal.values()}
    return sum(value.numel() * value.element_size() for value in tensors.values()) / 2**20


def one_draw(sampler: SlateSampler) -> Callable[[], None]:
    order, place = sampler.order(0), itertools.count(step=256)

    def run() -> None:
        first = next(place) % (order.shape[0] - 256)
        sampler.draw(order[first : first + 256], 0)

    return run


def batch_sizes(sampler: SlateSampler) -> dict[str, Callable[[], None]]:
    """A draw of n queries, and the two methods to find free items, on the first 256."""
    query = sampler.order(0)
    steps: dict[str, Callable[[], None]] = {}
    for size in (256, 1024):

        def draw(size: int = size) -> None:
            sampler.draw(query[:size], 0)

        steps[f"draw {size:,} queries"] = draw
    relevance, local = sampler.relevance, query[:256]
    total = relevance.num_relevant[local]
    rest = relevance.list_size[local] - total
    spread = Spread.draw(local * 7919, total.clamp(max=10), rest.clamp(max=300), rest, 310)
    bounds = relevance.taken_indptr[local], relevance.taken_indptr[local + 1]
    for name, count in (("merge", taken_before_by_merge), ("bisection", taken_before_by_search)):

        def find(count: Callable[..., object] = count) -> None:
            count(relevance, local, *bounds, spread)

        steps[f"free items, by {name}"] = find
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    relevance = long_tailed(*MOVIELENS_20M)
    print(relevance)
    plain = SlateSampler(relevance.to(options.device))
    seen = relevance.item[relevance.indptr[:-1]].long()  # the first item of every query becomes a seen item
    query = torch.repeat_interleave(torch.arange(relevance.num_queries), relevance.num_relevant)
    kept = torch.ones_like(query, dtype=torch.bool)
    kept[relevance.indptr[:-1]] = False
    excluding = Relevance.from_pairs(
        query[kept],
        relevance.item[kept].long(),
        relevance.label[kept],
        num_queries=relevance.num_queries,
        num_items=relevance.num_items,
        exclude=(torch.arange(relevance.num_queries), seen),
    )
    barred = SlateSampler(excluding.to(options.device))
    print(f"memory: {megabytes(relevance):.0f} MB; with exclusions {megabytes(excluding):.0f} MB")
    steps = {"sample 256 × (10 + 300)": one_draw(plain), "the same with exclusions": one_draw(barred)}
    table(f"sampling, {options.device}", medians(steps, options.rounds))
    if options.device == "cpu":
        for threads in (torch.get_num_threads(), 1):
            torch.set_num_threads(threads)
            table(f"in parts, {threads} threads", medians(batch_sizes(plain), options.rounds // 2))


if __name__ == "__main__":
    main()
