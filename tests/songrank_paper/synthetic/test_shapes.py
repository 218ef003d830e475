"""Named shapes of synthetic data sets."""

import pytest

from songrank_paper.synthetic import make_plan
from songrank_paper.synthetic.numbers import long_tailed_counts, stream
from songrank_paper.synthetic.planted_content import split_bounds
from songrank_paper.synthetic.shapes import SHAPES


@pytest.mark.parametrize(("task", "shape"), [(task, shape) for task in SHAPES for shape in SHAPES[task]])
def test_the_lengths_of_every_named_shape_sum_to_its_published_count(task, shape):
    plan = make_plan(shape=shape, task=task)
    total = plan.items if task == "search" else plan.pairs
    lengths = long_tailed_counts(total, plan.queries, plan.fewest, plan.most, stream(0, "x"), spread=1.4)
    assert lengths.sum() == total
    assert plan.fewest <= lengths.min()
    assert lengths.max() <= plan.most
    assert split_bounds(plan)[-1] == plan.queries
