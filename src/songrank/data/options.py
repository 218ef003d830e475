"""Options of a preparation: checked as a whole before anything is read, with the paper's values as presets."""

from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from songrank.data.errors import DataError


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
            what = f"option {name} is {error['input']!r}" if name else f"options of {kind}"
            expected = error["msg"].replace("Input should be ", "").partition(", unable")[0]
            raise DataError(what, f"expected {expected}") from None


class RatingOptions(Options):
    """Interactions to pairs and splits. Defaults are the paper's: every rating is a pair, the last two are held out."""

    min_interactions: int = Field(1, ge=1, description="keep queries with at least so many interactions")
    min_per_item: int = Field(1, ge=1, description="keep items with at least so many interactions")
    duplicates: Literal["last", "first", "max", "keep", "error"] = Field(
        "last", description="of interactions of one query with one item, keep this one"
    )
    labels: Literal["rating", "binary"] = Field("rating", description="label = the rating, or 1")
    min_rating: float | None = Field(None, description="leave out ratings below this")
    split: Literal["leave-last-out", "time", "random", "none"] = Field(
        "leave-last-out", description="hold out each query's last pairs, the latest pairs of all, or random pairs"
    )
    holdout: int = Field(1, ge=1, description="leave-last-out: so many for test, and so many before for validation")
    validation: float = Field(0.1, ge=0, lt=1, description="time, random: part of the pairs for validation")
    test: float = Field(0.1, ge=0, lt=1, description="time, random: part of the pairs for test")
    seed: int = Field(0, ge=0, description="of the random split")


class ColumnOptions(RatingOptions):
    """Interactions in a table whose columns have names."""

    query_column: str | None = Field(None, description="column of users; found by its name if not given")
    item_column: str | None = Field(None, description="column of items; found by its name if not given")
    label_column: str | None = Field(None, description="column of ratings; none: every row is a pair of label 1")
    time_column: str | None = Field(None, description="column of numbers or dates; none: rows are in order of time")
    separator: str | None = Field(None, description="of a text file: found in its first line if not given")
    encoding: str = Field("utf-8", description="of a text file")


class SequenceOptions(RatingOptions):
    """One query a line, its items in order of time."""

    duplicates: Literal["last", "first", "max", "keep", "error"] = Field("keep", description="as for ratings")
    encoding: str = Field("utf-8", description="of the file")
