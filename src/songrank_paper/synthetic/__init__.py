"""Synthetic data with planted preferences, for all three tasks, in any size and shape.

For demonstrations, tests and benchmarks: a model that learns the planted preferences must beat popularity. The data
depend only on the seed and the shape, not on the size of blocks. Only numpy and torch are needed.

>>> from songrank_paper.synthetic import draw_pairs, make_plan
>>> plan = make_plan(queries=50, items=200, pairs=1000)
>>> sum(pairs.item.shape[0] for pairs in draw_pairs(plan))
1000
"""

from typing import TYPE_CHECKING

from songrank.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from songrank_paper.synthetic.labelling import draw_texts
    from songrank_paper.synthetic.planted_content import (
        planted_relevance,
        planted_scores,
        synthetic,
        synthetic_content,
    )
    from songrank_paper.synthetic.recommendation import draw_pairs
    from songrank_paper.synthetic.search import Lists
    from songrank_paper.synthetic.shapes import SHAPES, Plan, make_plan

__all__ = [
    "SHAPES",
    "Lists",
    "Plan",
    "draw_pairs",
    "draw_texts",
    "make_plan",
    "planted_relevance",
    "planted_scores",
    "synthetic",
    "synthetic_content",
]

_HOMES = {"Lists": ".search", "draw_pairs": ".recommendation", "draw_texts": ".labelling"}
_HOMES |= dict.fromkeys(("SHAPES", "Plan", "make_plan"), ".shapes")
__getattr__ = lazy_names(__name__, {**dict.fromkeys(__all__, ".planted_content"), **_HOMES})
