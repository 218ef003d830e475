"""Options that several kinds of sources share: checked before anything is read."""

from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from songrank.core.errors import DataError, expected, shown

Scale = Literal["none", "l2", "log-l2"]


class Options(BaseModel):
    """Base of all options: unknown ones are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _none_as_a_word(cls, value: Any, info: ValidationInfo) -> Any:
        """``none`` for options that may be absent, since a command line has only words."""
        field = cls.model_fields[str(info.field_name)]
        absent_is_fine = type(None) in get_args(field.annotation)
        return None if value == "none" and absent_is_fine else value

    @classmethod
    def read(cls, kind: str, values: dict[str, Any]) -> "Options":
        """Options from keywords, or one line about the first that is wrong."""
        try:
            return cls.model_validate(values)
        except ValidationError as errors:
            error = errors.errors(include_url=False)[0]
            name = ".".join(str(part) for part in error["loc"])
            if error["type"] == "extra_forbidden":
                known = ", ".join(sorted(cls.model_fields))
                raise DataError(f"{kind} has no option {name!r}", f"it has {known}") from None
            what = f"option {name} is {shown(error['input'])}" if name else f"the options of {kind} do not fit together"
            raise DataError(what, expected(error)) from None


class QuerySplitOptions(Options):
    """How queries that bring their own rows, texts or lists of documents, are divided."""

    split: Literal["given", "random"] | None = Field(
        None, description="as the source divides them, or at random; none: given if it does divide them"
    )
    validation: float | None = Field(
        None, ge=0, lt=1, description="part for validation; none: 0.1 of all if random, 0 of training if given"
    )
    test: float = Field(0.1, ge=0, lt=1, description="random: part for test")
    seed: int = Field(0, ge=0, lt=2**63, description="of what is random")

    @property
    def random_validation(self) -> float:
        """Part for validation of a random split."""
        return 0.1 if self.validation is None else self.validation


class FeatureRowOptions(QuerySplitOptions):
    """How rows are divided, and how their features are scaled."""

    scale: Scale = Field(
        "none", description="of a row: as it is, of length 1, or of length 1 after the logarithm of 1 + each value"
    )


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
    def _fit_together(self) -> Self:
        if self.drop_last and self.split in ("time", "random"):
            raise ValueError(f"drop_last 0 with split {self.split}: the test would be another part of the same pairs")
        if self.split == "leave-last-out" and 0 < self.drop_last < self.holdout:
            raise ValueError(f"drop_last 0, or at least holdout, {self.holdout}: else some of the test stays in")
        if self.split in ("time", "random") and self.validation + self.test >= 1:
            raise ValueError(f"validation {self.validation:g} and test {self.test:g} that leave something for training")
        return self


class ColumnOptions(RatingOptions):
    """Interactions in a table whose columns have names."""

    query_column: str = Field("auto", description="column of users; auto: found by its name")
    item_column: str = Field("auto", description="column of items; auto: found by its name")
    label_column: str | None = Field("auto", description="column of ratings; none: every row is a pair of label 1")
    time_column: str | None = Field("auto", description="column of numbers or dates; none: rows are in order of time")
    separator: str | None = Field(None, description="of a text file: found in its first line if not given")
    encoding: str = Field("utf-8", description="of a text file")


class SequenceOptions(RatingOptions):
    """One query a line, its items in order of time."""

    duplicates: Literal["last", "first", "max", "keep", "error"] = Field("keep", description="as for ratings")
    encoding: str = Field("utf-8", description="of the file")
