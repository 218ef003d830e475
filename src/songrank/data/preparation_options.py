"""Options of data preparation, validated before any data is read."""

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_validator,
)

from songrank.core.errors import DataError, expected, shown, suggestion

Scale = Literal["none", "l2", "log-l2", "standardise"]


class Options(BaseModel):
    """Base class of all options; unknown names are rejected."""

    renamed: ClassVar[dict[str, str]] = {}
    """Current names by former names, which are accepted for one release."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _none_as_a_word(cls, value: Any, info: ValidationInfo) -> Any:
        """Read ``none`` as None for optional values, since command-line values are strings."""
        field = cls.model_fields[str(info.field_name)]
        absent_is_fine = type(None) in get_args(field.annotation)
        return None if isinstance(value, str) and value == "none" and absent_is_fine else value

    @property
    def source_files(self) -> tuple[str, ...]:
        """Files that these options name in place of a source."""
        return ()

    @property
    def table_files(self) -> tuple[str, ...]:
        """Files that these options name beside the source."""
        return ()

    @classmethod
    def current_names(cls, values: dict[str, Any], warn: Callable[[str], object]) -> dict[str, Any]:
        """Replace former names, with a one-line hint for each."""
        former = [name for name in cls.renamed if name in values and cls.renamed[name] not in values]
        for name in former:
            warn(f"--{name} is now --{cls.renamed[name]}".replace("_", "-"))
        return {cls.renamed[name] if name in former else name: value for name, value in values.items()}

    @classmethod
    def read(cls, kind: str, values: dict[str, Any]) -> "Options":
        """Validate keyword options; the error names the first invalid one."""
        values = cls.current_names(values, lambda hint: warnings.warn(hint, FutureWarning, stacklevel=6))
        try:
            return cls.model_validate(values)
        except ValidationError as errors:
            error = errors.errors(include_url=False)[0]
            name = ".".join(str(part) for part in error["loc"])
            if error["type"] == "extra_forbidden":
                hint = suggestion(name, sorted(cls.model_fields))
                raise DataError(f"unknown option {name!r} for {kind}", hint) from None
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
    """Splits and scaling of rows of features."""

    scale: Scale = Field(
        "none",
        description="Scaling: none; of each row L2 normalisation, or log(1 + x) and L2 normalisation; of each column "
        "mean 0 and standard deviation 1 over training rows, for dense features.",
    )


class RatingOptions(Options):
    """Filters and splits of interactions. Defaults are those of the paper: all ratings, last two per user held out."""

    min_interactions: int = Field(1, ge=1, description="Minimum number of interactions per user.")
    min_per_item: int = Field(1, ge=1, description="Minimum number of interactions per item.")
    duplicates: Literal["last", "first", "max", "keep", "error"] = Field(
        "last", description="Which of repeated interactions of a user with an item to keep."
    )
    labels: Literal["rating", "binary"] = Field("rating", description="Label of a pair: the rating, or 1.")
    min_rating: float | None = Field(None, allow_inf_nan=False, description="Drop ratings below this value.")
    drop_last: int = Field(
        0, ge=0, description="leave-last-out: number of last pairs per user to drop before splitting, for a backtest."
    )
    split: Literal["leave-last-out", "time", "random", "none"] = Field(
        "leave-last-out", description="Hold out the last pairs per user, the latest pairs, or random pairs."
    )
    holdout: int = Field(1, ge=1, description="leave-last-out: number of pairs per user for test, and for validation.")
    validation: float = Field(0.1, ge=0, lt=1, description="time, random: validation fraction.")
    test: float = Field(0.1, ge=0, lt=1, description="time, random: test fraction.")
    cold_items: float = Field(
        0.0,
        ge=0,
        lt=0.5,
        description="Fraction of items for test, and for validation, of which all pairs are held out, to measure cold "
        "start.",
    )
    seed: int = Field(0, ge=0, lt=2**63, description="Random seed of the split.")

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        self.check_together()
        return self

    def check_together(self) -> None:
        """Raise if options are valid individually but incompatible."""
        if self.cold_items and self.split == "none":
            raise ValueError("cold_items 0 with split none")
        if self.drop_last and self.split in ("time", "random"):
            raise ValueError(f"drop_last 0 with split {self.split}; drop_last is for leave-last-out")
        if self.split == "leave-last-out" and 0 < self.drop_last < self.holdout:
            raise ValueError(f"drop_last 0 or at least holdout, {self.holdout}, so that no test pair is kept")
        if self.split in ("time", "random") and self.validation + self.test >= 1:
            raise ValueError(f"validation {self.validation:g} + test {self.test:g} below 1")


class MovieLensOptions(RatingOptions):
    """Options of MovieLens."""

    features: bool = Field(False, description="Read titles and genres of movies, and users if their table exists.")


class ColumnOptions(RatingOptions):
    """Options of interaction tables; ``train`` or ``split_column`` select splits that the data already has."""

    renamed: ClassVar[dict[str, str]] = {"query_column": "user_column"}

    # Wider types than in the base class, whose readers use the fractions of split time and random only.
    split: Literal["leave-last-out", "time", "random", "none", "given"] = Field(  # type: ignore[assignment]
        "leave-last-out",
        description="Hold out the last pairs per user, the latest pairs, or random pairs; given: with train or "
        "split_column.",
    )
    validation: float | str = Field(  # type: ignore[assignment]
        0.1,
        union_mode="left_to_right",
        description="time, random: validation fraction; given: a file, or a fraction of each user's training pairs "
        "(0 by default).",
    )
    test: float | str = Field(  # type: ignore[assignment]
        0.1, union_mode="left_to_right", description="time, random: test fraction; given: a file."
    )
    train: str | None = Field(None, min_length=1, description="File of training interactions, in place of a source.")
    split_column: str | None = Field(
        None, description="Column of train, validation, test; auto: split; none: no such column."
    )
    user_column: str = Field("auto", description="Column of users; auto: detected by name.")
    item_column: str = Field("auto", description="Column of items; auto: detected by name.")
    label_column: str | None = Field("auto", description="Column of ratings; none: all rows have label 1.")
    time_column: str | None = Field("auto", description="Column of times or dates; none: rows are in time order.")
    items: Any | None = Field(None, description="Table of items with features: a CSV, TSV or Parquet file.")
    users: Any | None = Field(None, description="Table of users with features: a CSV, TSV or Parquet file.")
    item_columns: dict[str, str] | None = Field(
        None, description="Kinds of columns of items, e.g. genres=multi-valued,year=numeric; detected by default."
    )
    user_columns: dict[str, str] | None = Field(None, description="Kinds of columns of users.")
    separator: str | None = Field(None, description="Separator of a text file; detected by default.")
    encoding: str = Field("utf-8", description="Encoding of a text file.")

    @property
    def source_files(self) -> tuple[str, ...]:
        """The files of the splits, training first."""
        return tuple(self.files_by_split.values())

    @property
    def files_by_split(self) -> dict[str, str]:
        """The file of each split; empty without ``train``."""
        named = {"train": self.train, "validation": self.validation, "test": self.test}
        return {split: file for split, file in named.items() if isinstance(file, str)}

    @property
    def training_fraction(self) -> float:
        """The fraction of each user's training pairs to hold out for validation."""
        return self.validation if self.split == "given" and isinstance(self.validation, float) else 0.0

    @property
    def table_files(self) -> tuple[str, ...]:
        """The files of features."""
        return tuple(os.fspath(table) for table in self.tables.values() if isinstance(table, str | os.PathLike))

    @property
    def tables(self) -> dict[str, Any]:
        """The tables of features by ``"item"`` and ``"user"``."""
        return {word: table for word, table in (("item", self.items), ("user", self.users)) if table is not None}

    @field_validator("item_columns", "user_columns", mode="before")
    @classmethod
    def _kinds(cls, value: Any) -> Any:
        """Read ``name=kind,name=kind``."""
        if not isinstance(value, str) or value == "none":
            return value
        pairs = [part.rpartition("=") for part in value.split(",")]
        if not all(name and kind for name, _, kind in pairs):
            raise ValueError("NAME=KIND,NAME=KIND")
        return {name.strip(): kind.strip() for name, _, kind in pairs}

    @field_serializer("items", "users")
    def _table_name(self, value: Any) -> str | None:
        """The name of a file without its directory; of a table in memory, that it is one."""
        if value is None:
            return None
        return Path(value).name if isinstance(value, str | os.PathLike) else "the table"

    @field_validator("train", "validation", "test", mode="before")
    @classmethod
    def _path_as_text(cls, value: Any) -> Any:
        return os.fspath(value) if isinstance(value, os.PathLike) else value

    @field_validator("validation", "test")
    @classmethod
    def _fraction_below_one(cls, value: float | str) -> float | str:
        if value == "" or (isinstance(value, float) and not 0 <= value < 1):
            raise ValueError("a fraction from 0 to below 1, or a file")
        return value

    @field_serializer("train", "validation", "test")
    def _file_name(self, value: float | str | None) -> float | str | None:
        """The name of a file without its directory, so that the result does not depend on where the files are."""
        return Path(value).name if isinstance(value, str) else value

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_given_splits(cls, values: dict[str, Any]) -> dict[str, Any]:
        named = {name: value for name, value in values.items() if value is not None and str(value) != "none"}
        if not named.keys() & {"train", "split_column"}:
            return values
        parts = {name: named.get(name, 0) for name in ("validation", "test")}
        return {**values, **parts, "split": named.get("split", "given")}

    def check_together(self) -> None:
        """Raise if options are valid individually but incompatible."""
        for word, table, kinds in (("item", self.items, self.item_columns), ("user", self.users, self.user_columns)):
            if kinds and table is None:
                raise ValueError(f"{word}s with {word}_columns")
        if self.cold_items and self.split == "given":
            raise ValueError("cold_items 0 with split given")
        files = [f"{name} {file}" for name, file in self.files_by_split.items() if name != "train"]
        named = {"train": self.train, "split_column": self.split_column}
        own = [name for name, value in named.items() if value is not None]
        if len(own) == 2:
            raise ValueError("train or split_column, not both")
        if files and own != ["train"]:
            raise ValueError(f"train with {files[0]}")
        if bool(own) != (self.split == "given"):
            raise ValueError(f"split given with {own[0]}" if own else "train or split_column with split given")
        if not own:
            super().check_together()
        elif self.drop_last:
            raise ValueError("drop_last 0 with split given; drop_last is for leave-last-out")
        elif self.test and not isinstance(self.test, str):
            raise ValueError(f"a file for test, or no test, with {own[0]}; a fraction is for split time and random")


class SequenceOptions(RatingOptions):
    """Options of sequence files: one line per user."""

    duplicates: Literal["last", "first", "max", "keep", "error"] = Field(
        "keep", description="Which of repeated interactions of a user with an item to keep."
    )
    encoding: str = Field("utf-8", description="Encoding of the file.")
