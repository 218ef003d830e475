"""Synthetic data as a kind of data set, which the entry point ``synthetic`` adds to ``songrank data``."""

from songrank.data.registry import Kind

SYNTHETIC = Kind(
    "synthetic",
    "any",
    "Planted preferences of any size and shape, for trying out and for measuring",
    "nothing",
    "songrank_paper.synthetic.synthetic_content:synthetic",
    "songrank_paper.synthetic.synthetic_options:SyntheticOptions",
    without_source=True,
)
