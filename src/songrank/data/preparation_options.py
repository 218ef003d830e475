"""Options of a preparation: checked as a whole before anything is read, with the paper's values as presets."""

from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

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
