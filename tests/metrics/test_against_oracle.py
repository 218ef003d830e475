import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from songrank import metrics
from songrank.functional.ranks import TIES
from tests.oracles.metrics import AVERAGEABLE, METRICS, oracle

FUNCTIONS = {
    "dcg": metrics.dcg,
    "ndcg": metrics.ndcg,
    "mrr": metrics.mrr,
    "map": metrics.mean_average_precision,
    "precision": metrics.precision,
    "recall": metrics.recall,
    "hit_rate": metrics.hit_rate,
}
GRID = [(name, ties) for name in METRICS for ties in TIES if ties != "average" or name in AVERAGEABLE]

items = st.lists(
    st.tuples(st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 2.0, math.inf]), st.sampled_from([0.0, 0.0, 0.5, 1.0, 3.0])),
    min_size=1,
    max_size=6,
).filter(lambda pairs: any(label > 0 for _, label in pairs))


@pytest.mark.parametrize(("name", "ties"), GRID)
@settings(max_examples=40, deadline=None)
@given(items=items, k=st.sampled_from([None, 1, 2, 3, 5, 9]))
def test_a_metric_is_what_its_definition_says(name, ties, items, k):
    scores, labels = map(list, zip(*items, strict=True))
    value = FUNCTIONS[name](torch.tensor(scores), torch.tensor(labels), k=k, ties=ties)
    assert value.dtype == torch.float64
    assert float(value) == pytest.approx(oracle(name, scores, labels, k, ties), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("name", ["dcg", "ndcg"])
@settings(max_examples=20, deadline=None)
@given(items=items, k=st.sampled_from([None, 1, 3]))
def test_a_linear_gain_is_the_label_itself(name, ties, items, k):
    scores, labels = map(list, zip(*items, strict=True))
    value = FUNCTIONS[name](torch.tensor(scores), torch.tensor(labels), k=k, ties=ties, gain="linear")
    assert float(value) == pytest.approx(oracle(name, scores, labels, k, ties, "linear"), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("ties", TIES)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_many_lists_at_once_are_each_measured_as_if_alone(ties, data):
    lists = data.draw(st.lists(items, min_size=1, max_size=5))
    names = [f"{name}{cut}" for name, policy in GRID if policy == ties for cut in ("", "@2", "@4")]
    scores = torch.tensor([score for pairs in lists for score, _ in pairs])
    labels = torch.tensor([label for pairs in lists for _, label in pairs])
    found = metrics.evaluate_lists(scores, labels, lengths=[len(pairs) for pairs in lists], metrics=names, ties=ties)
    for name in names:
        base, _, cut = name.partition("@")
        expected = [oracle(base, *zip(*pairs, strict=True), int(cut) if cut else None, ties) for pairs in lists]
        assert found.per_query[name].tolist() == pytest.approx(expected, rel=1e-12, abs=1e-15)
        assert found.values[name] == pytest.approx(sum(expected) / len(expected), rel=1e-12, abs=1e-15)


def test_a_tied_group_far_down_a_long_list_keeps_its_digits():
    scores = torch.cat([torch.arange(200_000, 0, -1).double(), torch.zeros(3).double()])
    labels = torch.zeros(200_003).double()
    labels[-1] = 1.0
    expected = sum(1.0 / math.log2(1 + place) for place in (200_001, 200_002, 200_003)) / 3
    assert float(metrics.dcg(scores, labels, ties="average")) == pytest.approx(expected, rel=1e-9)
