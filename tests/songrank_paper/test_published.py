"""Published figures."""

import pytest

from songrank_paper.data_sets import SETS
from songrank_paper.methods import METHODS
from songrank_paper.published import PUBLISHED
from songrank_paper.set_recipes import METRICS


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_papers_figures_are_there_for_every_method_and_metric(name):
    task = SETS[name].task
    assert list(PUBLISHED[name]) == [method.name for method in METHODS[task]]
    assert {len(row) for row in PUBLISHED[name].values()} == {len(METRICS[task])}


def test_the_papers_figures_stand_where_the_paper_has_them():
    assert PUBLISHED["netflix"]["neural-ndcg"] == ["0.0554 ± 0.0002", "0.0718 ± 0.0003", "0.1003 ± 0.0002"]
    assert PUBLISHED["yahoo-ltr"]["listnet"] == ["0.7066 ± 0.0002", "0.7151 ± 0.0004", "0.7352 ± 0.0004"]
    assert PUBLISHED["mslr-web30k"]["approx-ndcg"] == ["0.5204 ± 0.0007", "0.5114 ± 0.0005", "0.5179 ± 0.0006"]
    assert PUBLISHED["wiki10-31k"]["k-song"] == ["0.7401", "0.6615"]
    assert PUBLISHED["eurlex-4k"]["approx-ndcg"] == ["0.6659", "0.6023"]
