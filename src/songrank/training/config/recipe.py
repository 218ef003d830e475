"""Recipe: the configuration of a run, everything it depends on except its data.

The sections follow the paper's experiments: model, batch, warm-up, loss, fine-tuning, validation and evaluation. In a
file, ``losses`` has changes for each loss, so one recipe serves all losses.
"""

from dataclasses import fields
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeInt, ValidationError, model_validator

from songrank.core.errors import UserError, expected, shown, suggestion
from songrank.core.options import check_options
from songrank.functional.ranks import TIES
from songrank.losses.paper_form import FasterForm, PaperForm
from songrank.losses.registry import LOSSES
from songrank.losses.schedules import Schedule
from songrank.losses.top_k import ThresholdOptions
from songrank.metrics.names import EMPTY, GAINS, check_policies, parse_metrics
from songrank.models.registry import MODELS
from songrank.sampling.sequence_sampler import WINDOWS
from songrank.training.config.components import UnknownOptionError, check_component, typed_component
from songrank.training.config.former_keys import read_former_keys
from songrank.training.config.schedule import batch_size
from songrank.training.optim.registry import OPTIMISERS, stage_conflicts
from songrank.training.trainer.precision import PRECISIONS
from songrank.training.trainer.stages import KEEP


def _count(value: Any) -> Any:
    text = str(value)
    if value != "all" and (isinstance(value, bool) or not text.isdecimal() or len(text) > 9 or int(text) < 1):
        raise ValueError(f"{shown(value)}; expected 'all' or a whole number from 1 to 999999999")
    return value if value == "all" else int(text)


def _queries(value: Any) -> Any:
    try:
        return value if value == "auto" else _count(value if value != "all" else None)
    except ValueError:
        raise ValueError(f"{shown(value)}; expected 'auto' or a whole number from 1 to 999999999") from None


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
PositiveInt = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Batch(_Section):
    """Composition of a training batch, a slate."""

    queries: Annotated[int | Literal["auto"], BeforeValidator(_queries)] = Field(
        256,
        description="Number of queries per step; auto: the largest power of two from 16 to 256 with at least 16 steps "
        "per epoch.",
    )
    relevant: Count = Field(10, description="Number of relevant items per query, or all.")
    irrelevant: Count = Field(300, description="Number of irrelevant items per query, or all.")
    length: Annotated[int | str, BeforeValidator(_length)] | None = Field(
        None,
        description="For search, instead of relevant and irrelevant: maximum number of documents per query, or all; "
        "none takes the value of the prepared data set.",
    )
    following: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="For sequence models: number of next items that are relevant, the j-th with 1/j of its gain."
    )
    windows: Literal[*WINDOWS] | None = Field(  # type: ignore[valid-type]
        None,
        description="For sequence models: the targets. last (default): the last model.length entries of each history; "
        "random: a random window of that length in each epoch; sliding: all entries, in successive windows; prefix: "
        "all entries, each after its own prefix, so that a step has batch.queries targets.",
    )

    @property
    def size(self) -> int:
        """The number of queries per step; :meth:`fitted` replaces ``"auto"``."""
        assert self.queries != "auto"
        return self.queries

    def fitted(self, queries: int) -> "Batch":
        """The batch for a training set with this number of queries.

        >>> [Batch(queries="auto").fitted(queries).size for queries in (120, 610, 6040, 10**6)]
        [16, 32, 256, 256]
        """
        return self.model_copy(update={"queries": batch_size(queries)}) if self.queries == "auto" else self


class _Stage(_Section):
    title: ClassVar[str]  # of the stage in reports
    number: ClassVar[int]  # of the stage, from 0; part of its random seed
    epochs: NonNegativeInt = Field(..., description="Number of passes over the queries; 0 skips the stage.")
    min_steps: NonNegativeInt = Field(
        0,
        description="Minimum number of steps: on small data the stage has more epochs, and decay and ema_decay are "
        "scaled with them. A changed number of epochs, on the command line for example, replaces it.",
    )
    learning_rate: Annotated[float, Field(gt=0, le=1e30)] = Field(1e-3, description="Initial learning rate.")
    decay: dict[PositiveInt, PositiveFloat] = Field(
        {}, description="Learning rate factors by epoch, such as {60: 0.25}."
    )
    weight_decay: Annotated[float, Field(ge=0)] = Field(0.0, description="Weight decay; biases and norms are excluded.")
    item_decay_power: Annotated[float, Field(ge=0, le=10)] = Field(
        0.0, description="Exponent p of frequency-scaled weight decay, proportional to (relevant pairs of the item)^p."
    )
    optimiser: Annotated[str, BeforeValidator(_optimiser)] = Field(
        "adam",
        description="Optimiser; lazy-adam updates only embedding rows that a step reads; sgd is the paper's momentum.",
    )
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(0.9, description="Momentum of sgd and of the faster losses.")
    correction: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="Correction factor κ of the faster losses' momentum at two points; none means 1."
    )
    ema_decay: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        None, description="Decay per epoch of an exponential moving average (EMA) of the weights; none disables it."
    )
    clip: PositiveFloat | None = Field(None, description="Maximum gradient norm; none disables clipping.")


def _component(section: str, default: str | None = None) -> Any:
    def check(values: Any) -> dict[str, Any]:
        unnamed = default is not None and isinstance(values, dict) and "name" not in values
        return check_component(section, {"name": default, **values} if unnamed else values)

    return Annotated[dict[str, Any], BeforeValidator(check)]


class WarmUp(_Stage):
    """The first stage; its default loss is listwise cross-entropy with a moving average (SOLC)."""

    title, number = "warm-up", 0
    epochs: NonNegativeInt = Field(20, description="Number of passes over the queries; 0 skips the warm-up.")
    loss: _component("loss", "listwise-ce") = Field(  # type: ignore[valid-type]
        {}, validate_default=True, description="Loss of the warm-up, a name or a mapping; default listwise-ce."
    )


class FineTuning(_Stage):
    """The second stage, with the loss of the recipe."""

    title, number = "fine-tuning", 1
    reset_head: bool = Field(True, description="Re-initialise the last layer before the stage, as the paper does.")


def _metrics(value: Any) -> Any:
    several = isinstance(value, list) and value and all(isinstance(name, str) for name in value)
    if not isinstance(value, str) and not several:
        raise ValueError(f"{shown(value)}; expected the name of a metric, for example ndcg@10")
    return value


def _metric_list(value: Any) -> Any:
    return _metrics([value] if isinstance(value, str) else value)


class Validation(_Section):
    """Evaluations during training, which select the checkpoint."""

    metric: Annotated[str, BeforeValidator(_metrics)] = Field(
        "ndcg@10", description="Metric that selects the checkpoint."
    )
    every: NonNegativeInt = Field(1, description="Validate every N epochs; 0 keeps the last weights.")
    min_steps: NonNegativeInt = Field(
        0,
        description="Minimum number of steps between evaluations: on small data they are further apart than `every`. A "
        "changed `every` replaces it.",
    )
    patience: PositiveInt | None = Field(
        None, description="Early stopping: number of evaluations without improvement; none disables it."
    )
    keep: Literal[*KEEP] = Field(  # type: ignore[valid-type]
        "last",
        description="Stages whose best checkpoint is the result: the last, as in the paper, or all; with all, a stage "
        "starts from the best checkpoint so far.",
    )
    candidates: Count = Field("all", description="Items to rank: all, or the number of sampled ones.")


class Evaluation(_Section):
    """The final evaluation, on whole lists or the whole catalogue."""

    metrics: Annotated[list[str], BeforeValidator(_metric_list)] = Field(
        ["ndcg@10", "ndcg@20", "ndcg@50"], description="Metrics to compute."
    )
    ties: Literal[*TIES] = Field("pessimistic", description="Order of items with equal scores.")  # type: ignore[valid-type]
    empty: Literal[*EMPTY] = Field("skip", description="Value of queries without relevant items: skip, 0 or 1.")  # type: ignore[valid-type]


class AutoSection(_Section):
    """Automatic choice among several models within a time budget."""

    budget: PositiveFloat | None = Field(
        None, description="Seconds of training; none: 15 s and 0.5 ms per training pair, at most 30 minutes."
    )


class BlendMember(_Section):
    """A run of a blend."""

    run: str = Field(..., description="Run directory.")
    weight: Annotated[float, Field(ge=0, le=1)] = Field(..., description="Weight of its standardised scores.")
    seed: NonNegativeInt = Field(0, description="Random seed of the run.")
    changes: dict[str, Any] = Field({}, description="Recipe keys with other values than in this recipe.")


class BlendSection(_Section):
    """The members of a blend; the other sections of the recipe are those of the first member."""

    metric: str | None = Field(None, description="Metric that chose the weights on validation; none: they were given.")
    members: Annotated[list[BlendMember], Field(min_length=1)] = Field(..., description="The runs.")


class Recipe(_Section):
    """The configuration of a run.

    >>> recipe = Recipe.read({"data": "data/clicks", "model": "neumf", "fine_tuning": {"epochs": 120}})
    >>> recipe.loss["name"], recipe.model["dim"], recipe.batch.queries
    ('song', 64, 256)
    >>> Recipe.read({"data": "data/clicks", "model": "neumf", "fine_tuning": {"epochs": -1}})
    Traceback (most recent call last):
    songrank.core.errors.UserError: fine_tuning.epochs is -1; expected greater than or equal to 0
    """

    title: str = Field("", description="Title, one line.")
    data: str = Field(..., description="Directory of a prepared data set.")
    prepare: str = Field("", description="Command that prepares the data set.")
    model: _component("model") = Field(..., description="Model, a name or a mapping of name and options.")  # type: ignore[valid-type]
    batch: Batch = Field(Batch(), description="Composition of a training batch.")
    warm_up: WarmUp = Field(default_factory=WarmUp, description="First training stage.")
    loss: _component("loss", "song") = Field(  # type: ignore[valid-type]
        {}, validate_default=True, description="Loss of the fine-tuning, a name or a mapping; default song."
    )
    fine_tuning: FineTuning = Field(..., description="Second training stage.")
    validation: Validation = Field(Validation(), description="Evaluations during training.")
    evaluation: Evaluation = Field(Evaluation(), description="Final evaluation.")
    gain: Literal[*GAINS] = Field("exp2", description="Gain of a label y in DCG: exp2 is 2^y − 1, linear is y.")  # type: ignore[valid-type]
    precision: Literal[*PRECISIONS] = Field(  # type: ignore[valid-type]
        "float32", description="Precision of the model's matrix products; tf32 and bfloat16 are faster on a GPU."
    )
    device: str = Field("auto", description="Device: auto, cpu, cuda or cuda:N.")
    deterministic: bool = Field(False, description="Bit-exact results on a GPU, at slower steps; CPUs always are.")
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(0, description="Random seed.")
    members: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Number of runs in an ensemble or a blend; set by `songrank ensemble` only."
    )
    auto: AutoSection | None = Field(
        None, description="Choose the models automatically, as the recipe `auto` does; other recipes have none."
    )
    blend: BlendSection | None = Field(
        None, description="Runs and weights of a blend; set by `songrank ensemble` only."
    )

    def sections(self) -> tuple[tuple[WarmUp | FineTuning, dict[str, Any]], ...]:
        """The section and the loss of each stage."""
        return (self.warm_up, self.warm_up.loss), (self.fine_tuning, self.loss)

    @property
    def closed_form(self) -> bool:
        """Whether the model is fitted in closed form, without stages and loss."""
        return MODELS[self.model["name"]].capabilities.closed_form

    @property
    def method(self) -> str:
        """The name of the loss, or of a model that is fitted without one."""
        return str((self.model if self.closed_form else self.loss)["name"])

    def _check_closed_form(self) -> None:
        fitted = f"model {self.model['name']!r} is fitted in closed form"
        for key, section in (("warm_up", self.warm_up), ("fine_tuning", self.fine_tuning)):
            if section.epochs:
                raise ValueError(f"{key}.epochs is {section.epochs}; expected 0: {fitted} (recipe {self.method})")
        if self.loss["name"] != "song":
            raise ValueError(f"loss is {self.loss['name']!r}; expected none: {fitted}, without a loss")

    @model_validator(mode="before")
    @classmethod
    def _current_keys(cls, values: Any) -> Any:
        return read_former_keys(values) if isinstance(values, dict) else values

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
        if self.closed_form:
            self._check_closed_form()
        elif self.warm_up.epochs + self.fine_tuning.epochs == 0:
            raise ValueError("at least one epoch in warm_up or fine_tuning")
        return self

    @classmethod
    def read(cls, values: Any, place: str = "") -> "Recipe":
        """Validate plain values; an error is one line about the first mistake, with ``place`` as the file."""
        try:
            return cls.model_validate(values)
        except ValidationError as errors:
            where = f"{place}: " if place else ""
            raise UserError(where + _complaint(cls, _first(errors))) from None


def _first(errors: ValidationError) -> dict[str, Any]:
    """The first error; for a mapping where a scalar is also valid, the error inside the mapping."""
    first, *others = errors.errors(include_url=False)
    same = [other for other in others if other["loc"][: len(first["loc"]) - 1] == first["loc"][:-1]]
    return dict(same[-1] if same and isinstance(first["input"], dict) else first)


def _complaint(recipe: type[BaseModel], error: dict[str, Any]) -> str:
    """One line: the key, the bad value, what was expected."""
    words = [str(part) for part in error["loc"] if part not in _NO_KEYS]
    key = ".".join(words)
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, UnknownOptionError):
        return str(cause) if key in ("model", "loss") else f"{key}: {cause}"
    if (error["loc"] or [""])[-1] in ("model", "loss", "threshold", *_VALUES) and isinstance(cause, ValueError):
        return f"{key}.{cause}"
    if error["type"] == "unexpected_keyword_argument":
        kind = next((_VALUES[part] for part in error["loc"] if part in _VALUES), ThresholdOptions)
        what = "a schedule" if kind is Schedule else f"a {kind.__name__}"
        return f"unknown key {shown(key)} of {what}; expected one of {', '.join(field.name for field in fields(kind))}"
    if words[:1] == ["blend"] and len(words) > 1:
        return f"{key} is {shown(error['input'])}; expected a blend as written by `songrank ensemble`"
    if error["type"] in ("extra_forbidden", "invalid_key"):
        return f"unknown recipe key {shown(key)}; {suggestion(words[-1], _keys(recipe, words[:-1]))}"
    if error["type"] == "missing":
        of = "the loss requires it" if "loss" in words[:-1] else "see `songrank recipes` for complete recipes"
        return f"{key} is missing; {of}"
    if not key:
        if error["type"] != "value_error":
            return "the recipe is not a mapping; expected keys such as data and model"
        return str(cause) if "; expected " in str(cause) else expected(error)
    if error["type"] == "model_type":
        return f"{key} is {shown(error['input'])}; expected a mapping with keys {', '.join(_keys(recipe, words))}"
    if isinstance(cause, ValueError):
        return f"{key} is {cause}"
    return f"{key} is {shown(error['input'])}; {expected(error)}"


_VALUES: dict[Any, Any] = {kind.__name__: kind for kind in (Schedule, PaperForm, FasterForm, ThresholdOptions)}
# Parts that pydantic adds to the path of a value
_NO_KEYS = ("constrained-int", "int", "float", "none", "[key]", "literal['paper']", *_VALUES)


def _keys(section: type[BaseModel], path: list[str]) -> list[str]:
    for name in path:
        section = section.model_fields[name].annotation  # type: ignore[assignment]
    written = ("members", "blend") if section is Recipe else ()  # by `songrank ensemble` only
    names = [name for name in section.model_fields if name not in written]
    return names if path else [*names, "losses", "shapes"]
