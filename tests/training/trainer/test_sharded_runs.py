"""Runs of several real processes are those of one: the same weights, memory, metrics and history."""

from pathlib import Path

import pytest
import torch

from songrank.data import prepare
from tests.processes import run_processes
from tests.training.trainer.sharded_runs import CASES, train

PROGRAM = Path(__file__).with_name("sharded_runs.py")
USERS, ITEMS = 47, 30


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Users with 1 to 15 items; the first has almost all pairs of its range."""
    place = tmp_path_factory.mktemp("data")
    generator, rows = torch.Generator().manual_seed(0), []
    for user in range(USERS):
        items = torch.randperm(ITEMS, generator=generator)[: 28 if user == 0 else 4 + user % 9]
        rows += [(f"u{user:02}", int(item), time) for time, item in enumerate(items)]
    table = dict(zip(("user", "item", "time"), zip(*rows, strict=True), strict=True))
    prepare("interactions", table, place / "recommendation")
    labels = {"task": "labelling", "queries": 40, "items": 20, "pairs": 100, "features": 50, "words": 6}
    prepare("synthetic", None, place / "labelling", **labels)
    documents = torch.rand(160, 3, generator=generator)
    query = [number // 4 for number in range(160)]
    lists = {"query": query, "label": (documents[:, 0] * 3).int().tolist(), "weight": [1.0 + q % 3 for q in query]}
    lists |= {f"x{number}": column.tolist() for number, column in enumerate(documents.T)}
    options = {"query_column": "query", "label_column": "label", "weight_column": "weight", "split": "random"}
    prepare("feature-table", lists, place / "search", validation=0.2, test=0.2, **options)
    return place


@pytest.fixture(scope="module")
def alone(data):
    return train(data)


@pytest.fixture(scope="module", params=[2, 4])
def parts(request, data, tmp_path_factory):
    place = tmp_path_factory.mktemp("results")
    ended = run_processes(request.param, PROGRAM, data, place, limit=120)
    assert all(done.returncode == 0 for done in ended), "\n".join(done.stderr[-3000:] for done in ended)
    return [torch.load(place / f"{rank}.pt", weights_only=False) for rank in range(request.param)]


@pytest.mark.parametrize("case", CASES)
def test_several_processes_train_what_one_does(case, alone, parts):
    one, others = alone[case], [part[case] for part in parts]
    for other in others:
        assert one["state"].keys() == other["state"].keys()
        for name, value in one["state"].items():
            torch.testing.assert_close(other["state"][name], value, rtol=0, atol=1e-10, equal_nan=True, msg=name)
        assert other["best"] == one["best"]
        for line, own in zip(one["history"], other["history"], strict=True):
            assert line.keys() == own.keys()
            for name, value in line.items():
                assert own[name] == (pytest.approx(value, abs=1e-6) if isinstance(value, float) else value), name


@pytest.mark.parametrize("case", CASES)
def test_shared_weights_have_the_same_bits_on_all_processes_after_every_epoch(case, parts):
    first, *others = (part[case]["shared"] for part in parts)
    assert first
    for other in others:
        for epoch, own in zip(first, other, strict=True):
            assert epoch.keys() == own.keys()
            assert all(torch.equal(epoch[name], own[name]) for name in epoch)
