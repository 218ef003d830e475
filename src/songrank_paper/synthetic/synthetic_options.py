"""Options of synthetic data, checked before anything is made."""

from typing import Literal

from pydantic import Field

from songrank.data.preparation_options import Options

_Logs = Literal["demo", "movielens-100k", "movielens-1m", "movielens-20m", "netflix"]
_Shape = Literal[_Logs, "mslr-web10k", "mslr-web30k", "yahoo-ltr", "eurlex-4k", "wiki10-31k"]


class SyntheticOptions(Options):
    """What to make: a named shape, and numbers that differ from it. ``make_plan`` checks that they fit together."""

    task: Literal["recommendation", "search", "labelling"] | None = Field(
        None, description="the shape's task, or recommendation, if not given"
    )
    shape: _Shape | None = Field(
        None, description="counts of a published data set, or of a small demonstration; demo if not given"
    )
    queries: int | None = Field(None, ge=6, description="users, search queries or texts")
    items: int | None = Field(None, ge=2, description="items, documents of all lists together, or labels")
    pairs: int | None = Field(None, ge=1, lt=1 << 31, description="recommendation, labelling: relevant pairs")
    features: int | None = Field(None, ge=2, description="search: columns; labelling: words that there are")
    words: int | None = Field(None, ge=1, description="labelling: different words of a text, on average")
    holdout: int | None = Field(
        None, ge=1, description="recommendation: so many last pairs for test, and so many before for validation"
    )
    noise: float | None = Field(None, ge=0, le=1, description="0: preferences decide all; 1: chance does")
    seed: int = Field(0, ge=0, lt=1 << 63, description="another seed, another data set")
