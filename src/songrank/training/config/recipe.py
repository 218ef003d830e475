"""A recipe: everything that a run depends on besides its data, as YAML that is checked before data is read.

Its sections follow the paper's experiments: model, slates, warm-up, loss, fine-tuning, validation and evaluation.
``losses`` has the changes for each loss, so that one recipe serves all losses.
"""

from dataclasses import fields
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)

from songrank.core.errors import UserError, expected, shown
from songrank.core.options import check_options
from songrank.functional.ranks import TIES
from songrank.losses.ksong import ThresholdOptions
from songrank.losses.paper_form import FasterForm, PaperForm
from songrank.losses.registry import LOSSES
from songrank.losses.schedules import Schedule
from songrank.metrics.names import EMPTY, GAINS, check_policies, parse_metrics
from songrank.sampling.sequence_sampler import WINDOWS
from songrank.training.config.components import check_component, typed_component
from songrank.training.config.stage_rules import stage_conflicts
from songrank.training.optim.registry import OPTIMISERS
from songrank.training.trainer.precision import PRECISIONS


def _count(value: Any) -> Any:
    text = str(value)
    if value != "all" and (isinstance(value, bool) or not text.isdecimal() or len(text) > 9 or int(text) < 1):
        raise ValueError(f"{shown(value)}; expected 'all' or a whole number from 1 to 999999999")
    return value if value == "all" else int(text)


def _length(value: Any) -> Any:
    value = _count(value)
    if value != "all" and value < 3:
        raise ValueError(f"{value}; expected 'all' or a whole number of at least 3")
    return value


def _optimiser(value: Any) -> Any:
    if value not in tuple(OPTIMISERS):
        *some, last = map(repr, OPTIMISERS)
        raise ValueError(f"{shown(value)}; expected {', '.join(some)} or {last}")
    return value


Count = Annotated[int | str, BeforeValidator(_count)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Batch(_Section):
    """The composition of a slate."""

    queries: Annotated[int, Field(ge=1, lt=10**9)] = Field(256, description="queries a step")
    relevant: Count = Field(10, description="relevant items a query, or all")
    irrelevant: Count = Field(300, description="irrelevant items a query, or all")
    length: Annotated[int | str, BeforeValidator(_length)] | None = Field(
        None,
        description="instead of the two, for lists: cut to so many documents, or all of them; "
        "none: as the data set was prepared",
    )
    following: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="of histories in order: so many next items are relevant, the j-th with 1/j of its gain"
    )
    windows: Literal[*WINDOWS] | None = Field(  # type: ignore[valid-type]
        None,
        description="of histories in order that are longer than the model reads: the last entries (if not given), or "
        "in each epoch as many at random",
    )


class _Stage(_Section):
    title: ClassVar[str]
    """Its name in reports."""
    number: ClassVar[int]
    """Its number, from 0, a part of its random seed."""
    epochs: NonNegativeInt = Field(..., description="passes over the queries; 0 for no such stage")
    learning_rate: Annotated[float, Field(gt=0, le=1e30)] = Field(1e-3, description="at the start")
    decay: dict[PositiveInt, PositiveFloat] = Field({}, description="{60: 0.25}: times 0.25 after 60 epochs")
    weight_decay: NonNegativeFloat = Field(0.0, description="of weights; biases and norms are left alone")
    item_decay_power: Annotated[float, Field(ge=0, le=10)] = Field(
        0.0, description="an item's weight decay grows with this power of its relevant pairs; 0: all alike"
    )
    optimiser: Annotated[str, BeforeValidator(_optimiser)] = Field(
        "adam",
        description="lazy-adam moves only rows of large tables that a step touches; sgd is momentum as in the paper",
    )
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(0.9, description="of sgd, and of the faster losses")
    correction: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="of the faster losses' momentum, at two points; none is 1"
    )
    average: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        None, description="of weights over epochs: what is kept of their moving mean in each; none: no mean"
    )
    clip: PositiveFloat | None = Field(None, description="largest norm of the gradient")


def _component(section: str, default: str | None = None) -> Any:

    def check(values: Any) -> dict[str, Any]:
        unnamed = default is not None and isinstance(values, dict) and "name" not in values
        return check_component(section, {"name": default, **values} if unnamed else values)

    return Annotated[dict[str, Any], BeforeValidator(check)]


class WarmUp(_Stage):
    """The first stage: listwise cross-entropy with a moving average (SOLC) unless told otherwise."""

    title, number = "warm-up", 0
    epochs: NonNegativeInt = Field(20, description="passes over the queries; 0 for no warm-up")
    loss: _component("loss", "listwise-ce") = Field({}, validate_default=True)  # type: ignore[valid-type]


class FineTuning(_Stage):
    """The second stage, with the loss that the recipe is about."""

    title, number = "fine-tuning", 1
    reset_head: bool = Field(True, description="a new last layer before it, as the paper does for every method")


def _metrics(value: Any) -> Any:
    several = isinstance(value, list) and value and all(isinstance(name, str) for name in value)
    if not isinstance(value, str) and not several:
        raise ValueError(f"{shown(value)}; expected the name of a metric such as ndcg@10")
    return value


def _metric_list(value: Any) -> Any:
    return _metrics([value] if isinstance(value, str) else value)


class Validation(_Section):
    """Evaluations during training, which choose the model."""

    metric: Annotated[str, BeforeValidator(_metrics)] = Field("ndcg@10", description="the best state by it is kept")
    every: NonNegativeInt = Field(1, description="epochs between looks; 0 for none: the last state is kept")
    patience: PositiveInt | None = Field(None, description="looks without a better one after which a stage ends")
    candidates: Count = Field("all", description="items ranked at a look: all, or so many sampled (catalogues)")


class Evaluation(_Section):
    """The final evaluation, on whole lists or the whole catalogue."""

    metrics: Annotated[list[str], BeforeValidator(_metric_list)] = ["ndcg@10", "ndcg@20", "ndcg@50"]
    ties: Literal[*TIES] = "pessimistic"  # type: ignore[valid-type]
    empty: Literal[*EMPTY] = "skip"  # type: ignore[valid-type]


class Recipe(_Section):
    """Everything that a run depends on besides its data.

    >>> recipe = Recipe.read({"data": "data/clicks", "model": "neumf", "fine_tuning": {"epochs": 120}})
    >>> recipe.loss["name"], recipe.model["dim"], recipe.batch.queries
    ('song', 64, 256)
    >>> Recipe.read({"data": "data/clicks", "model": "neumf", "fine_tuning": {"epochs": -1}})
    Traceback (most recent call last):
    songrank.core.errors.UserError: fine_tuning.epochs is -1; expected greater than or equal to 0
    """

    title: str = Field("", description="one line for people")
    data: str = Field(..., description="folder of a prepared data set")
    prepare: str = Field("", description="the command that makes this folder, for who has not made it yet")
    model: _component("model") = Field(...)  # type: ignore[valid-type]
    batch: Batch = Batch()
    warm_up: WarmUp = Field(default_factory=WarmUp)
    loss: _component("loss", "song") = Field({}, validate_default=True)  # type: ignore[valid-type]
    fine_tuning: FineTuning
    validation: Validation = Validation()
    evaluation: Evaluation = Evaluation()
    gain: Literal[*GAINS] = "exp2"  # type: ignore[valid-type]
    precision: Literal[*PRECISIONS] = Field(  # type: ignore[valid-type]
        "float32", description="of the model's products: tf32 is faster on a GPU, bfloat16 (mixed) faster still"
    )
    device: str = Field("auto", description="auto, cpu, cuda or cuda:1")
    deterministic: bool = Field(
        False, description="on a GPU the same bits each time, as on a CPU anyway; steps take longer"
    )
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    members: Annotated[int, Field(ge=2)] | None = Field(
        None, description="runs whose scores are averaged; `songrank ensemble` writes it"
    )

    def sections(self) -> tuple[tuple[WarmUp | FineTuning, dict[str, Any]], ...]:
        """The section of each stage, and the stage's loss."""
        return (self.warm_up, self.warm_up.loss), (self.fine_tuning, self.loss)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        given = {"model": self.model, "warm_up.loss": self.warm_up.loss, "loss": self.loss}
        check_options({key: typed_component(key.rpartition(".")[2], values) for key, values in given.items()})
        wanted = {"validation.metric": self.validation.metric, "evaluation.metrics": self.evaluation.metrics}
        for key, names in wanted.items():
            try:
                metrics = parse_metrics(names)
            except ValueError as error:
                raise ValueError(f"{key} is {str(error).removeprefix('metric is ')}") from None
            check_policies(metrics, self.evaluation.ties, self.evaluation.empty, self.gain)
        for key, (stage, loss) in zip(("warm_up", "fine_tuning"), self.sections(), strict=True):
            limits = {name: getattr(stage, name) for name in ("clip", "item_decay_power", "correction")}
            traits = LOSSES[loss["name"]].traits
            for conflict in stage_conflicts(stage.optimiser, loss["name"], traits, loss.get("points", 0), **limits):
                raise ValueError("{}.{} is {!r}; expected {}".format(key, *conflict))
        if self.warm_up.epochs + self.fine_tuning.epochs == 0:
            raise ValueError("at least one epoch in warm_up or fine_tuning")
        return self

    @classmethod
    def read(cls, values: Any, place: str = "") -> "Recipe":
        """A recipe from plain values, or one line about the first error; ``place`` is the file."""
        try:
            return cls.model_validate(values)
        except ValidationError as errors:
            where = f"{place}: " if place else ""
            raise UserError(where + _complaint(cls, _first(errors))) from None


def _first(errors: ValidationError) -> dict[str, Any]:
    """The first error; for a mapping where a plain value is also valid, the error inside it."""
    first, *others = errors.errors(include_url=False)
    same = [other for other in others if other["loc"][: len(first["loc"]) - 1] == first["loc"][:-1]]
    return dict(same[-1] if same and isinstance(first["input"], dict) else first)


def _complaint(recipe: type[BaseModel], error: dict[str, Any]) -> str:
    """One line: the key, the bad value, what was expected."""
    words = [str(part) for part in error["loc"] if part not in _NO_KEYS]
    key = ".".join(words)
    cause = error.get("ctx", {}).get("error")
    if (error["loc"] or [""])[-1] in ("model", "loss", "threshold", *_VALUES) and isinstance(cause, ValueError):
        return f"{key}.{cause}"
    if error["type"] == "unexpected_keyword_argument":
        kind = next((_VALUES[part] for part in error["loc"] if part in _VALUES), ThresholdOptions)
        what = "a schedule" if kind is Schedule else f"a {kind.__name__}"
        return f"{key} is no key of {what}; expected one of {', '.join(field.name for field in fields(kind))}"
    if error["type"] in ("extra_forbidden", "invalid_key"):
        return f"{key} is no key of a recipe; expected one of {', '.join(_keys(recipe, words[:-1]))}"
    if error["type"] == "missing":
        of = "this loss needs it" if "loss" in words[:-1] else "see `songrank recipes` for whole ones"
        return f"{key} is missing; {of}"
    if not key:
        if error["type"] != "value_error":
            return "the recipe is empty or no mapping"
        return str(cause) if "; expected " in str(cause) else expected(error)
    if error["type"] == "model_type":
        return f"{key} is {shown(error['input'])}; expected keys and values: {', '.join(_keys(recipe, words))}"
    if isinstance(cause, ValueError):
        return f"{key} is {cause}"
    return f"{key} is {shown(error['input'])}; {expected(error)}"


_VALUES: dict[Any, Any] = {kind.__name__: kind for kind in (Schedule, PaperForm, FasterForm, ThresholdOptions)}
# Parts that pydantic adds to the path of a value.
_NO_KEYS = ("constrained-int", "int", "float", "none", "[key]", "literal['paper']", *_VALUES)


def _keys(section: type[BaseModel], path: list[str]) -> list[str]:
    for name in path:
        section = section.model_fields[name].annotation  # type: ignore[assignment]
    names = [name for name in section.model_fields if name != "members"]  # written by `songrank ensemble` only
    return names if path else [*names, "losses"]
