"""Search spaces: ranges and choices for keys of a recipe, in the notation of the command line."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from songrank.core.errors import UserError, shown
from songrank.losses.registry import LOSSES
from songrank.training.config.former_keys import FORMER_KEYS
from songrank.training.config.recipe import Recipe

_SEARCHED = ("model", "batch", "warm_up", "loss", "fine_tuning", "precision")  # others define the comparison


@dataclass(frozen=True)
class Dimension:
    """A key of a recipe and its values: a range, or choices in the notation of the command line."""

    key: str
    words: str
    choices: tuple[str, ...] = ()
    low: float = 0
    high: float = 0
    log: bool = False

    @property
    def ends(self) -> tuple[str, ...]:
        """Both ends of a range, or all choices, as strings."""
        return self.choices or (repr(self.low), repr(self.high))

    @property
    def size(self) -> float:
        """The number of values."""
        return len(self.choices) or (self.high - self.low + 1 if isinstance(self.low, int) else math.inf)

    def distribution(self, optuna: Any) -> Any:
        """The distribution for Optuna."""
        if self.choices:
            return optuna.distributions.CategoricalDistribution(self.choices)
        kind = "IntDistribution" if isinstance(self.low, int) else "FloatDistribution"
        return getattr(optuna.distributions, kind)(self.low, self.high, log=self.log)

    def holding(self, value: Any, meaning: Mapping[tuple[str, str], Any]) -> list[Any]:
        """The value in the notation of this dimension, or nothing; ``meaning`` has the value of each word."""
        if self.choices:
            return [word for word in self.choices if meaning[self.key, word] == value][:1]
        inside = isinstance(value, int | float) and self.low <= value <= self.high
        return [type(self.low)(value)] if inside and type(self.low)(value) == value else []


def read_search(words: Sequence[str]) -> list[Dimension]:
    """A search space from words such as ``loss.gamma=0.1..1.0``, ``loss.k=10,50`` or ``batch.relevant=5..20:log``."""
    space = [_read_dimension(text) for text in words]
    for number, one in enumerate(space):
        if any(one.key == earlier.key for earlier in space[:number]):
            raise UserError(f"search {shown(words[number])}: {one.key} is searched twice; merge both into one")
    return space


def read_grid(text: str) -> list[list[str]]:
    """All combinations of a grid such as ``loss=song loss.gamma=0.1,0.3``, as changes of a recipe."""
    keys = [word.partition("=") for word in text.split()]
    return [list(one) for one in product(*([f"{key}={word}" for word in _choices(words)] for key, _, words in keys))]


def _choices(words: str) -> list[str]:
    """Words between commas, except the commas within brackets."""
    return [word.strip() for word in re.split(r",(?![^\[{]*[\]}])", words)]


def _read_dimension(text: str) -> Dimension:
    place = f"search {shown(text)}"
    key, equals, words = (part.strip() for part in text.partition("="))
    if not equals or not all(key.split(".")) or not words:
        raise UserError(f"{place}: expected a key and its values, such as loss.gamma=0.1..1.0 or loss.k=10,50,300")
    key = FORMER_KEYS.get(key, key)
    root = key.partition(".")[0]
    if root in Recipe.model_fields and root not in _SEARCHED:
        sections = ", ".join(_SEARCHED)
        raise UserError(f"{place}: {root} cannot be searched, because trials must share it; search {sections}")
    if key.removesuffix(".name") in ("model", "loss", "warm_up.loss"):
        raise UserError(f"{place}: each {key} has its own options; tune each in a separate study, and compare them")
    choices = _choices(words)
    span = re.fullmatch(r"(.+?)\.\.(.+?)(?::(.*))?", words)
    if span is not None and len(choices) == 1:
        return _read_range(place, key, words, span[1].strip(), span[2].strip(), span[3])
    choices = ["null" if word.lower() == "none" else word for word in choices]
    if len(choices) == 1:
        raise UserError(f"{place}: a search needs several values; pass a single one as the change {key}={words}")
    if not all(choices) or len(set(choices)) < len(choices):
        raise UserError(f"{place}: expected different values between commas")
    return Dimension(key, ",".join(choices), tuple(choices))


def _read_range(place: str, key: str, words: str, low: str, high: str, scale: str | None) -> Dimension:
    whole = all(re.fullmatch(r"[+-]?[0-9]+", end) for end in (low, high))
    try:
        first, last = (int(low), int(high)) if whole else (float(low), float(high))
    except ValueError:
        raise UserError(f"{place}: expected a number on both sides of ..") from None
    if not (math.isfinite(first) and math.isfinite(last) and first < last):
        raise UserError(f"{place}: {low} is not below {high}")
    if scale not in (None, "log") or (scale == "log" and first <= 0):
        raise UserError(f"{place}: expected a range with or without :log; :log needs values above 0")
    return Dimension(key, words, low=first, high=last, log=scale == "log")


def _around(value: float, factor: float) -> str:
    low, high = (float(f"{end:.3g}") for end in (value / factor, value * factor))
    return f"{low!r}..{high!r}:log"


_RANGES: dict[str, Callable[[Any], str]] = {  # by the kinds of ``Traits.search``, from the value of the recipe
    "weight": lambda own: f"{min(own, 0.1)!r}..1.0",
    "scale": lambda own: _around(own, 4),
    "offset": lambda own: "null,4,16,64,256" + (f",{own:g}" if own not in (None, 4, 16, 64, 256) else ""),
    "cutoff": lambda own: ",".join(str(k) for k in sorted({max(1, own // 4), max(1, own // 2), own, 2 * own})),
}


def default_search(recipe: Recipe) -> list[str]:
    """The default search space: the learning rate, and the options that the loss declares, except schedules."""
    stage, key, loss = recipe.fine_tuning, "loss", recipe.loss
    if stage.epochs == 0:
        stage, key, loss = recipe.warm_up, "warm_up.loss", recipe.warm_up.loss  # type: ignore[assignment]
    searched = LOSSES[loss["name"]].searched(loss)
    searched = {name: kind for name, kind in searched.items() if not isinstance(loss[name], Mapping)}
    rate = f"{'fine_tuning' if key == 'loss' else 'warm_up'}.learning_rate={_around(stage.learning_rate, 10**0.5)}"
    return [rate, *(f"{key}.{name}={_RANGES[kind](loss[name])}" for name, kind in searched.items())]
