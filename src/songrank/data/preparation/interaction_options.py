"""Options of recommendation: which interactions count, and how they are split."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from songrank.data.preparation_options import Options


class RatingOptions(Options):
    """Interactions to pairs and splits. Defaults are the paper's: every rating is a pair, the last two are held out."""

    min_interactions: int = Field(1, ge=1, description="keep queries with at least so many interactions")
    min_per_item: int = Field(1, ge=1, description="keep items with at least so many interactions")
    duplicates: Literal["last", "first", "max", "keep", "error"] = Field(
        "last", description="of interactions of one query with one item, keep this one"
    )
    labels: Literal["rating", "binary"] = Field("rating", description="label = the rating, or 1")
    min_rating: float | None = Field(None, allow_inf_nan=False, description="leave out ratings below this")
    drop_last: int = Field(
        0, ge=0, description="leave-last-out: first leave out so many last pairs of each query, to rehearse on the past"
    )
    split: Literal["leave-last-out", "time", "random", "none"] = Field(
        "leave-last-out", description="hold out each query's last pairs, the latest pairs of all, or random pairs"
    )
    holdout: int = Field(1, ge=1, description="leave-last-out: so many for test, and so many before for validation")
    validation: float = Field(0.1, ge=0, lt=1, description="time, random: part of the pairs for validation")
    test: float = Field(0.1, ge=0, lt=1, description="time, random: part of the pairs for test")
    seed: int = Field(0, ge=0, lt=2**63, description="of the random split")

    @model_validator(mode="after")
    def _rehearse(self) -> Self:
        if self.drop_last and self.split in ("time", "random"):
            raise ValueError(f"drop_last 0 with split {self.split}: the test would be another part of the same pairs")
        if self.split == "leave-last-out" and 0 < self.drop_last < self.holdout:
            raise ValueError(f"drop_last 0, or at least holdout, {self.holdout}: else some of the test stays in")
        return self

    @model_validator(mode="after")
    def _leave_something(self) -> Self:
        if self.split in ("time", "random") and self.validation + self.test >= 1:
            raise ValueError(f"validation {self.validation:g} and test {self.test:g} that leave something for training")
        return self


class ColumnOptions(RatingOptions):
    """Interactions in a table whose columns have names."""

    renamed: ClassVar[dict[str, str]] = {"query_column": "user_column"}

    user_column: str = Field("auto", description="Column of users; auto: found by its name.")
    item_column: str = Field("auto", description="column of items; auto: found by its name")
    label_column: str | None = Field("auto", description="column of ratings; none: every row is a pair of label 1")
    time_column: str | None = Field("auto", description="column of numbers or dates; none: rows are in order of time")
    separator: str | None = Field(None, description="of a text file: found in its first line if not given")
    encoding: str = Field("utf-8", description="of a text file")


class SequenceOptions(RatingOptions):
    """One query a line, its items in order of time."""

    duplicates: Literal["last", "first", "max", "keep", "error"] = Field("keep", description="as for ratings")
    encoding: str = Field("utf-8", description="of the file")
