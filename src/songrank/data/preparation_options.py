"""Options of data preparation, validated before any data is read."""

import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from songrank.core.errors import DataError, expected, shown

RANDOM_VALIDATION = 0.1  # default fraction of rows for validation in a random split


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
        return None if value == "none" and absent_is_fine else value

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
