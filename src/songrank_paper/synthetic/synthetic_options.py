"""Options of synthetic data."""

from typing import Literal

from pydantic import Field

from songrank.data.preparation_options import Options

_Logs = Literal["demo", "movielens-100k", "movielens-1m", "movielens-20m", "netflix"]
_Shape = Literal[_Logs, "mslr-web10k", "mslr-web30k", "yahoo-ltr", "eurlex-4k", "wiki10-31k"]


class SyntheticOptions(Options):
    """A named shape, and numbers that replace those of the shape. ``make_plan`` checks that they are consistent."""

    task: Literal["recommendation", "search", "labelling"] | None = Field(
        None, description="Task; by default that of the shape, or recommendation."
    )
    shape: _Shape | None = Field(
        None, description="Shape: the counts of a published data set, or demo (the default), which is small."
    )
    queries: int | None = Field(None, ge=6, description="Number of users, search queries or texts.")
    items: int | None = Field(None, ge=2, description="Number of items, of documents in all lists, or of labels.")
    pairs: int | None = Field(
        None, ge=1, lt=1 << 31, description="Recommendation, labelling: number of relevant pairs."
    )
    features: int | None = Field(
        None, ge=2, description="Search: number of features; labelling: size of the vocabulary."
    )
    words: int | None = Field(None, ge=1, description="Labelling: mean number of distinct words per text.")
    holdout: int | None = Field(
        None, ge=1, description="Recommendation: last pairs per user for test, and as many before for validation."
    )
    noise: float | None = Field(None, ge=0, le=1, description="Noise from 0 (only preferences) to 1 (only chance).")
    seed: int = Field(0, ge=0, lt=1 << 63, description="Random seed.")
