"""Load recipes: shipped ones by name, others from files, with changes such as ``loss.gamma=0.3``."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from songrank.core.errors import UserError, shown, suggestion
from songrank.core.limits import RECIPE_BYTES
from songrank.io.files import read_whole
from songrank.io.verification import check_seal
from songrank.losses.registry import LOSSES
from songrank.training.config.data_shapes import SHAPES, data_shapes
from songrank.training.config.former_keys import read_former_keys
from songrank.training.config.recipe import Recipe
from songrank.training.config.yaml_text import load_yaml, read_yaml, shipped_recipes

_NAMED = ("model", "loss")  # sections that may be given by name only: loss=k-song
_OF_HISTORIES = ("following", "windows")  # batch keys that only history models have
_SEALED = {"config.yaml": "run.json", "best.yaml": "study.json"}  # recipes with a checksum, and the file beside them
_EXACT = (["warm_up", "epochs"], ["fine_tuning", "epochs"], ["validation", "every"])  # a change replaces min_steps


def load_recipe(source: str, changes: Sequence[str] = (), warn: Callable[[str], None] | None = None) -> Recipe:
    """Load a recipe and apply changes as on the command line.

    The ``losses`` entry of the selected loss (or of the base loss of a faster loss) is applied to the file, then the
    ``shapes`` entries of the data set, if it exists, then the changes. A changed number of epochs, or
    ``validation.every``, is exact: it replaces ``min_steps`` of its section.

    Args:
        source: a YAML file, a run directory, or the name of a shipped recipe.
        changes: ``KEY=VALUE``.
        warn: called with one line for each former name of a key.

    >>> recipe = load_recipe("movielens-1m", ["loss=k-song", "loss.gamma=0.3", "seed=1"])
    >>> recipe.loss["name"], recipe.loss["gamma"], recipe.seed
    ('k-song', 0.3, 1)
    """
    values = read_yaml(*_text(source))
    if Path(source).is_dir():  # a run: no warning about keys that songrank wrote
        values = read_former_keys(values)
    return Recipe.read(resolve(values, changes, source, warn and cache(warn)), source)  # warn once per key


def _text(source: str) -> tuple[str, str]:
    shipped, path = shipped_recipes(), Path(source)
    if source in shipped:
        return shipped[source], source
    try:
        if path.is_dir():
            path = path / "config.yaml"
        text = read_whole(path, RECIPE_BYTES).decode("utf-8")
        beside = _SEALED.get(path.name)
        if beside is not None and path.with_name(beside).exists():
            check_seal(text, source)
        return text, source
    except FileNotFoundError:
        hint = suggestion(source, shipped, f"expected a YAML file or one of {', '.join(shipped)}")
        raise UserError(f"{source}: unknown recipe; {hint}") from None
    except UserError:
        raise
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not UTF-8 text") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{shown(source, 300)} cannot be read ({getattr(error, 'strerror', None) or error})") from None


def resolve(
    values: dict[str, Any], changes: Sequence[str], place: str, warn: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Apply the ``losses`` entry of the selected loss, the ``shapes`` of the data and the changes to a recipe."""
    values = read_former_keys(values, warn)
    pairs = [_read_change(change) for change in changes]
    by_loss, by_shape = values.pop("losses", None) or {}, values.pop("shapes", None) or {}
    given = _named(values.get("loss", "song"), "song")
    chosen = given["name"]
    for path, value in pairs:
        if path in (["loss"], ["loss", "name"]):
            chosen = _named(value, chosen)["name"]
    if not isinstance(by_loss, dict):
        raise UserError(f"{place}: losses is {shown(by_loss)}; expected a mapping from loss names to changes")
    for name, section in by_loss.items():
        if name not in LOSSES:
            raise UserError(f"{place}: unknown loss {name!r} in losses; expected one of {', '.join(LOSSES)}")
        if section is not None and not isinstance(section, dict):
            raise UserError(f"{place}: losses.{name} is {shown(section)}; expected a mapping")
    values["loss"] = given if chosen == given["name"] else {"name": chosen}
    plain = LOSSES[str(chosen)].traits.plain if str(chosen) in LOSSES else None
    told = next((name for name in (str(chosen), plain) if name in by_loss), None)
    values = _merged(values, read_former_keys(by_loss.get(told) or {}, warn), f"{place}: losses.{told}")
    _check_shapes(by_shape, place)
    if by_shape:
        data = next((value for path, value in reversed(pairs) if path == ["data"]), values.get("data"))
        for shape in data_shapes(data):
            values = _merged(values, by_shape.get(shape) or {}, f"{place}: shapes.{shape}")
    for path, value in pairs:
        entry: Any = value
        if len(path) == 1 and path[0] in _NAMED:
            entry = _named(value, _named(values.get(path[0]))["name"])
        if path == ["model"] and _named(values.get("model"))["name"] != entry["name"]:
            values["model"] = {}  # the options belong to another model
            if isinstance(values.get("batch"), dict):
                values["batch"] = {key: value for key, value in values["batch"].items() if key not in _OF_HISTORIES}
        for name in reversed(path):
            entry = {name: entry}
        values = _merged(values, read_former_keys(entry, warn), place)
        if path in _EXACT and [path[0], "min_steps"] not in [given for given, _ in pairs]:
            values = _merged(values, {path[0]: {"min_steps": 0}}, place)
    return values


def _check_shapes(by_shape: Any, place: str) -> None:
    if not isinstance(by_shape, dict):
        raise UserError(f"{place}: shapes is {shown(by_shape)}; expected a mapping from shapes to changes")
    for name in by_shape:
        if name not in SHAPES:
            raise UserError(f"{place}: unknown shape {name!r} in shapes; expected one of {', '.join(SHAPES)}")


def _named(value: Any, default: Any = None) -> dict[str, Any]:
    """A section as a mapping; ``default`` replaces a missing name."""
    return {"name": default, **value} if isinstance(value, dict) else {"name": value}


def _read_change(change: str) -> tuple[list[str], Any]:
    """Parse a change: ``loss.gamma=0.3`` → (["loss", "gamma"], 0.3)."""
    key, equals, text = change.partition("=")
    path = key.strip().split(".")
    if not equals or not all(path):
        raise UserError(f"{shown(change)} is not a change of a recipe; expected KEY=VALUE, for example loss.gamma=0.3")
    try:
        return path, load_yaml(text) if text.strip() else ""
    except (ValueError, RecursionError):
        what = "a number, a string, a list [64, 32] or a mapping {60: 0.25}"
        raise UserError(f"{key} is {shown(text)}; expected {what}") from None


def _merged(values: dict[str, Any], more: Any, place: str) -> dict[str, Any]:
    if not isinstance(more, dict):
        raise UserError(f"{place} is {shown(more)}; expected a mapping")
    found = dict(values)
    for key, value in more.items():
        earlier = found.get(str(key))
        inner = earlier if isinstance(earlier, dict) else _named(earlier) if key in _NAMED and earlier else {}
        found[str(key)] = _merged(inner, value, place) if isinstance(value, dict) and key != "decay" else value
    return found
