"""The data set kind ``synthetic``, which an entry point adds to ``songrank data``."""

from songrank.data.registry import Kind

SYNTHETIC = Kind(
    "synthetic",
    "any",
    "Synthetic data with planted preferences in any size and shape",
    "nothing",
    "songrank_paper.synthetic.planted_content:synthetic",
    "songrank_paper.synthetic.synthetic_options:SyntheticOptions",
    without_source=True,
)
