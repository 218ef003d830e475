"""Options of data preparation, validated before any data is read."""

from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from songrank.core.errors import DataError, expected, shown

Scale = Literal["none", "l2", "log-l2"]


class Options(BaseModel):
    """Base class of all options; unknown names are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _none_as_a_word(cls, value: Any, info: ValidationInfo) -> Any:
        """Read ``none`` as None for optional values, since command-line values are strings."""
        field = cls.model_fields[str(info.field_name)]
        absent_is_fine = type(None) in get_args(field.annotation)
        return None if value == "none" and absent_is_fine else value

    @classmethod
    def read(cls, kind: str, values: dict[str, Any]) -> "Options":
        """Validate keyword options; the error names the first invalid one."""
        try:
            return cls.model_validate(values)
        except ValidationError as errors:
            error = errors.errors(include_url=False)[0]
            name = ".".join(str(part) for part in error["loc"])
            if error["type"] == "extra_forbidden":
                known = ", ".join(sorted(cls.model_fields))
                raise DataError(f"unknown option {name!r} for {kind}", f"expected one of {known}") from None
            what = f"option {name} is {shown(error['input'])}" if name else f"the options of {kind} are incompatible"
            raise DataError(what, expected(error)) from None


class QuerySplitOptions(Options):
    """Train/validation/test split of queries with their own rows, texts or document lists."""

    split: Literal["given", "random"] | None = Field(
        None, description="Splits of the source, or a random split; none: given if the source has splits."
    )
    validation: float | None = Field(
        None, ge=0, lt=1, description="Validation fraction; none: 0.1 of all if random, 0 of training if given."
    )
    test: float = Field(0.1, ge=0, lt=1, description="random: test fraction.")
    seed: int = Field(0, ge=0, lt=2**63, description="Random seed.")

    @property
    def random_validation(self) -> float:
        """Validation fraction of a random split."""
        return 0.1 if self.validation is None else self.validation


class FeatureRowOptions(QuerySplitOptions):
    """Splits of rows, and scaling of their features."""

    scale: Scale = Field(
        "none", description="Row scaling: none, L2 norm 1, or L2 norm 1 after log(1 + x) of each value."
    )


class RatingOptions(Options):
    """Interactions to pairs and splits. By default, as in the paper, all ratings are pairs, the last two held out."""

    min_interactions: int = Field(1, ge=1, description="Minimum number of interactions per user.")
    min_per_item: int = Field(1, ge=1, description="Minimum number of interactions per item.")
    duplicates: Literal["last", "first", "max", "keep", "error"] = Field(
        "last", description="Which of repeated interactions of a user with an item to keep."
    )
    labels: Literal["rating", "binary"] = Field("rating", description="Labels: the ratings, or 1 for all.")
    min_rating: float | None = Field(None, allow_inf_nan=False, description="Drop ratings below this value.")
    drop_last: int = Field(
        0, ge=0, description="leave-last-out: drop the last N pairs of each user first, for backtests."
    )
    split: Literal["leave-last-out", "time", "random", "none"] = Field(
        "leave-last-out", description="Hold out each user's last pairs, the latest pairs overall, or random pairs."
    )
    holdout: int = Field(1, ge=1, description="leave-last-out: number of pairs per user for test, and for validation.")
    validation: float = Field(0.1, ge=0, lt=1, description="time, random: validation fraction of the pairs.")
    test: float = Field(0.1, ge=0, lt=1, description="time, random: test fraction of the pairs.")
    seed: int = Field(0, ge=0, lt=2**63, description="Random seed of the split.")

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.drop_last and self.split in ("time", "random"):
            raise ValueError(f"drop_last 0 with split {self.split}, which would test on part of the same pairs")
        if self.split == "leave-last-out" and 0 < self.drop_last < self.holdout:
            raise ValueError(f"drop_last 0 or at least holdout, {self.holdout}; otherwise test pairs stay in training")
        if self.split in ("time", "random") and self.validation + self.test >= 1:
            raise ValueError(f"validation {self.validation:g} and test {self.test:g} to sum to less than 1")
        return self


class ColumnOptions(RatingOptions):
    """Interactions in a table with named columns."""

    query_column: str = Field("auto", description="Column of users; auto: detected by name.")
    item_column: str = Field("auto", description="Column of items; auto: detected by name.")
    label_column: str | None = Field("auto", description="Column of ratings; none: all labels are 1.")
    time_column: str | None = Field("auto", description="Column of numbers or dates; none: rows are in time order.")
    separator: str | None = Field(None, description="Separator of a text file; detected by default.")
    encoding: str = Field("utf-8", description="Encoding of a text file.")


class SequenceOptions(RatingOptions):
    """One user per line, items in time order."""

    duplicates: Literal["last", "first", "max", "keep", "error"] = Field(
        "keep", description="Which of repeated interactions of a user with an item to keep."
    )
    encoding: str = Field("utf-8", description="Encoding of the file.")
