"""Models and losses in a recipe: a name and constructor options, validated before any data is read."""

import inspect
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model
from torch import Tensor, nn

from songrank.core.errors import shown, suggestion
from songrank.core.options import WithOptions
from songrank.losses.paper_form import read_former_options
from songrank.losses.registry import LOSSES
from songrank.models.registry import MODELS

Kinds = Mapping[str, type[WithOptions]]

# Set from the data or by the trainer, not in recipes.
_NOT_IN_RECIPES = {"num_queries", "num_items", "num_labels", "num_features", "vocabulary", "num_pairs", "seed"}
_NOT_IN_RECIPES |= {"queries_per_batch", "active_queries", "pair_range", "query_range", "dtype", "validate"}
KINDS: Mapping[str, Kinds] = {"model": MODELS, "loss": LOSSES}


class UnknownOptionError(ValueError):
    """An option that the model or loss does not have."""


@cache
def option_class(kind: type[WithOptions]) -> type[BaseModel]:
    """The options of a model or loss in a recipe: constructor arguments that YAML can express."""
    hints = typing.get_type_hints(kind.__init__)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        tensors = any(part in (Tensor, nn.Module) for part in (hints[name], *typing.get_args(hints[name])))
        if name not in _NOT_IN_RECIPES and parameter.kind is not parameter.VAR_KEYWORD and not tensors:
            fields[name] = (hints[name], ... if parameter.default is parameter.empty else parameter.default)
    made: type[BaseModel] = create_model(kind.__name__, __config__=ConfigDict(extra="forbid"), **fields)
    return made


def check_component(section: str, values: Any) -> dict[str, Any]:
    """Validate a ``model`` or ``loss`` section; return its name and all options, defaults included.

    >>> check_component("loss", {"name": "lambdarank", "sigma": "2"})
    {'name': 'lambdarank', 'sigma': 2.0, 'k': None}
    >>> check_component("loss", {"name": "song", "gama": 0.3})
    Traceback (most recent call last):
    songrank.training.config.components.UnknownOptionError: unknown option 'gama' for loss 'song'; did you mean 'gamma'?
    """
    values = {"name": values} if isinstance(values, str) else values
    if not isinstance(values, dict):
        raise ValueError(f"name is {shown(values)}; expected one of {', '.join(KINDS[section])}")
    kinds, options = KINDS[section], {str(key): value for key, value in values.items()}
    name = options.pop("name", None)
    if not isinstance(name, str) or name not in kinds:
        raise ValueError(f"name is {shown(name)}; {suggestion(name, kinds)}")
    known = option_class(kinds[name])  # type: ignore[arg-type]
    if options.keys() - known.model_fields.keys() or isinstance(options.get("form"), str):
        options = read_former_options(options, known.model_fields)
    for key in options:
        if key not in known.model_fields:
            hint = suggestion(key, known.model_fields, None if known.model_fields else "it has no options")
            raise UnknownOptionError(f"unknown option {shown(key)} for {section} {name!r}; {hint}")
    return {"name": name, **known.model_validate(options).model_dump(mode="json")}


def typed_component(section: str, values: Mapping[str, Any]) -> tuple[type[WithOptions], dict[str, Any]]:
    """The class of a validated section, and its options as constructor arguments."""
    given = dict(values)
    kind = KINDS[section][given.pop("name")]
    found = option_class(kind).model_validate(given)  # type: ignore[arg-type]
    return kind, {key: getattr(found, key) for key in type(found).model_fields}


def make_component(section: str, values: Mapping[str, Any], sizes: Mapping[str, Any]) -> Any:
    """Build the model or loss of a validated section; unused ``sizes`` are ignored."""
    kind, options = typed_component(section, values)
    return kind.build(options, sizes)
