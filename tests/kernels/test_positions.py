"""Positions by the kernel are those of the plain path, bit for bit, and NaN scores are found."""

import pytest
import torch

pytest.importorskip("triton", reason="kernels need Triton")

from songrank import kernels
from songrank.core.errors import NotFiniteError
from songrank.core.relevance import Relevance
from songrank.kernels import positions as kernel
from songrank.metrics import evaluate_catalogue

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
METRICS = {"pessimistic": ["ndcg@5", "ndcg", "mrr", "recall@3", "map"], "average": ["ndcg@5", "ndcg", "recall@3"]}


def problem(*, queries, items, most, excluded, levels, seed=0):
    """Targets with up to ``most`` relevant and up to ``excluded`` other taken items per query, and scores with ties."""
    generator = torch.Generator().manual_seed(seed)
    pairs = ([], [], [])
    away = ([], [])
    for query in range(queries):
        order = torch.randperm(items, generator=generator).tolist()
        relevant = int(torch.randint(most + 1, (1,), generator=generator)) if query else most
        barred = int(torch.randint(excluded + 1, (1,), generator=generator))
        for item in order[:relevant]:
            for part, value in zip(pairs, (query, item, 1 + item % 3), strict=True):
                part.append(value)
        for item in order[relevant : relevant + barred]:
            away[0].append(query)
            away[1].append(item)
    scores = torch.randint(levels, (queries, items), generator=generator).float()
    query, item, label = pairs
    targets = Relevance.from_pairs(
        query=query, item=item, label=label, num_queries=queries, num_items=items, exclude=away
    ).to(DEVICE)
    return targets, scores.to(DEVICE)


@pytest.fixture
def used(monkeypatch):
    """The calls of the kernel, which also runs on a CPU here."""
    calls = []
    count = kernel.count_positions

    def recorded(*given):
        calls.append(given)
        return count(*given)

    monkeypatch.setattr(kernel, "count_positions", recorded)
    monkeypatch.setattr(kernels, "usable", lambda tensor: kernels._wanted)
    return calls


@pytest.mark.parametrize("ties", ["pessimistic", "average"])
@pytest.mark.parametrize(
    "shape",
    [
        {"queries": 1, "items": 1, "most": 1, "excluded": 0, "levels": 1},
        {"queries": 6, "items": 40, "most": 1, "excluded": 0, "levels": 4},
        {"queries": 7, "items": 130, "most": 9, "excluded": 20, "levels": 12},
        {"queries": 5, "items": 300, "most": 70, "excluded": 150, "levels": 50},
        {"queries": 2, "items": 4500, "most": 3, "excluded": 4400, "levels": 1000},
    ],
    ids=str,
)
def test_every_metric_of_every_query_is_that_of_the_plain_path(shape, ties, used):
    targets, scores = problem(**shape)
    found = evaluate_catalogue(lambda query: scores[query], targets, metrics=METRICS[ties], ties=ties)
    assert used
    with kernels.plain():
        wanted = evaluate_catalogue(lambda query: scores[query], targets, metrics=METRICS[ties], ties=ties)
    for name in METRICS[ties]:
        assert torch.equal(found.per_query[name].nan_to_num(-1), wanted.per_query[name].nan_to_num(-1)), name


def test_infinite_scores_rank_at_the_ends(used):
    targets, scores = problem(queries=6, items=60, most=5, excluded=10, levels=4)
    scores[scores == 0], scores[scores == 3] = -torch.inf, torch.inf
    found = evaluate_catalogue(lambda query: scores[query], targets, metrics="ndcg")
    with kernels.plain():
        assert evaluate_catalogue(lambda query: scores[query], targets, metrics="ndcg").values == found.values


def test_scores_of_other_precision_and_order_of_memory_are_read_as_they_are(used):
    targets, scores = problem(queries=6, items=60, most=5, excluded=10, levels=9)
    wanted = evaluate_catalogue(lambda query: scores[query], targets, metrics="ndcg").values
    for dtype in (torch.float64, torch.bfloat16):
        turned = scores.to(dtype).T.contiguous()
        assert evaluate_catalogue(lambda query, t=turned: t[:, query].T, targets, metrics="ndcg").values == wanted
    assert len(used) == 3


def test_a_nan_of_a_candidate_is_an_error_and_that_of_an_excluded_item_is_ignored(used):
    targets = Relevance.from_pairs(query=[0, 1], item=[2, 0], num_items=4, exclude=([0], [3])).to(DEVICE)
    scores = torch.tensor([[0.1, 0.2, 0.3, torch.nan], [0.3, 0.2, 0.4, 0.1]], device=DEVICE)
    assert evaluate_catalogue(lambda query: scores[query], targets, metrics="mrr").values == {"mrr": 0.75}
    scores[1, 3] = torch.nan
    with pytest.raises(NotFiniteError, match="query 1"):
        evaluate_catalogue(lambda query: scores[query], targets, metrics="mrr")
    assert used
