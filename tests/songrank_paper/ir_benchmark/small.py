"""Helpers that tests of the benchmark share."""

from songrank_paper.ir_benchmark.protocol import BenchmarkProtocol
from tests.songrank_paper.small_training import plan

TINY = ("model.dim=4", "batch.queries=16", "batch.irrelevant=10", "validation.every=1")
SHORT = (*TINY, "fine_tuning.epochs=2")


def protocol(path, backbone="mf", changes=TINY, seeds=(0, 1)):
    return BenchmarkProtocol(plan(seeds, ir_health=path), "ir-health", backbone, changes)


def value(number):
    """The result of a run on validation."""
    if number is None:
        return {"diverged": "NaN"}
    return {"metrics": {"validation": {"ndcg@20": number}}, "epochs": {"warm_up": 0, "fine_tuning": 3}}
