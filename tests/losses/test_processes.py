"""Two processes that own half of the queries each remember together what one that owns all of them does."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from songrank import SlateSampler
from songrank.losses import FasterKSONG, FasterSONG, GumbelApproxNDCG
from songrank.losses.memory import merge_states
from tests.losses import train_part


def test_two_processes_hold_the_state_of_one(tmp_path):
    root = Path(__file__).parents[2]
    parts = {(0, 23): tmp_path / "first.pt", (23, 60): tmp_path / "second.pt"}
    running = [
        subprocess.Popen([sys.executable, "-m", "tests.losses.train_part", str(first), str(last), str(path)], cwd=root)
        for (first, last), path in parts.items()
    ]
    states, drawn = train_part.train(0, 60)
    assert [process.wait(timeout=120) for process in running] == [0, 0]
    (first_states, first_drawn), (second_states, second_drawn) = (
        torch.load(path, weights_only=True) for path in parts.values()
    )
    together = first_drawn | second_drawn
    assert together.keys() == drawn.keys()
    assert not first_drawn.keys() & second_drawn.keys()
    assert all(torch.equal(together[key], items) for key, items in drawn.items())
    for whole, *shares in zip(states, first_states, second_states, strict=True):
        merged = merge_states(shares)
        assert merged.keys() == whole.keys()
        for name, values in whole.items():
            # Up to rounding: where a query stands in its batch decides which of a CPU's instructions compute exp.
            torch.testing.assert_close(merged[name], values, rtol=1e-5, atol=1e-6, msg=name)


HALVES = [train_part.whole_relevance().shard(*ends) for ends in ((0, 30), (30, 60))]


def faster(kind, relevance, batch=30):
    options = {"queries_per_batch": batch, "active_queries": relevance.num_queries, "pair_range": relevance.pair_range}
    if kind is FasterKSONG:
        options |= {"k": train_part.K, "query_range": relevance.query_range}
    return kind(relevance.num_pairs, relevance.num_queries, **options)


def visit(loss, relevance, epoch):
    """One step with two points over every query of a range, of scores that grow."""
    sampler = SlateSampler(relevance, 30, 4, 6, seed=5, k=train_part.K if isinstance(loss, FasterKSONG) else None)
    sampler.epoch = epoch
    for slate in sampler:
        scores = train_part.score(slate.query, slate.item) * (1 + epoch / 5)
        loss(scores, slate, before=scores * 0.9)


@pytest.mark.parametrize("kind", [FasterSONG, FasterKSONG])
def test_a_faster_loss_goes_on_from_a_merged_state_as_if_never_merged(kind):
    losses = [faster(kind, half) for half in HALVES]
    for loss, half in zip(losses, HALVES, strict=True):
        for epoch in range(3):
            visit(loss, half, epoch)
    states = [loss.state_dict() for loss in losses]
    merged = merge_states(states[::-1])
    assert torch.equal(merged["guarded"], states[0]["guarded"] + states[1]["guarded"])
    assert merged["steps"] == 3
    whole = faster(kind, train_part.whole_relevance(), batch=60)
    whole.load_state_dict(merged)
    for loss, half in zip(losses, HALVES, strict=True):
        again = faster(kind, half)
        again.load_state_dict(whole.state_dict())
        visit(again, half, 3)
        visit(loss, half, 3)
        for name, values in loss.state_dict().items():
            if not name.endswith(("guarded", "last_query", "last_threshold")):
                assert torch.equal(again.state_dict()[name], values), name


def test_states_of_processes_that_were_not_in_step_are_not_merged():
    one, other = GumbelApproxNDCG(), GumbelApproxNDCG()
    other.steps += 1
    with pytest.raises(ValueError, match="steps is '0 and 1'; expected the same value in all states"):
        merge_states([one.state_dict(), other.state_dict()])
