"""YAML of recipes, without reading them as recipes: shipped ones, and parsing with errors that name the line."""

from collections import Counter
from importlib.resources import files
from typing import Any

from songrank.core.errors import UserError, shown


def shipped_recipes() -> dict[str, str]:
    """The text of each shipped recipe, by name."""
    folder = files("songrank.training.config.recipes")
    found = [file for file in folder.iterdir() if file.name.endswith(".yaml")]
    return {file.name.removesuffix(".yaml"): file.read_text(encoding="utf-8") for file in sorted(found, key=str)}


def read_yaml(text: str, place: str) -> dict[str, Any]:
    """Parse a YAML mapping; an error names the file and the line."""
    try:
        values = load_yaml(text)
    except (ValueError, RecursionError) as error:
        mark = getattr(error, "mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise UserError(f"{place}{line}: is not valid YAML ({str(error).splitlines()[0]})") from None
    if not isinstance(values, dict):
        raise UserError(f"{place}: is not a recipe; expected a mapping such as `songrank recipes movielens-1m`")
    return {str(key): value for key, value in values.items()}


def load_yaml(text: str) -> Any:
    """Parse YAML without code or duplicate keys; an error is a ``ValueError`` with its ``mark``."""
    import yaml

    from songrank.io.yaml_text import BoundedLoader

    class Loader(BoundedLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
            for key, count in Counter(key for key in keys if isinstance(key, str)).items():
                if count > 1:
                    raise yaml.constructor.ConstructorError(None, None, f"duplicate key {shown(key)}", node.start_mark)
            return super().construct_mapping(node, deep)

        def construct_scalar(self, node: Any) -> Any:
            value = super().construct_scalar(node)
            if ":" in value and node.tag.endswith((":int", ":float")):  # YAML 1.1 reads 60:0.25 in base 60
                told = f"{value} needs a space after ':' or quotes"
                raise yaml.constructor.ConstructorError(None, None, told, node.start_mark)
            return value

    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        fault = ValueError(getattr(error, "problem", None) or "unreadable")
        fault.mark = getattr(error, "problem_mark", None)  # type: ignore[attr-defined]
        raise fault from None
    except (AttributeError, KeyError, TypeError) as error:  # from values such as !!int x
        raise ValueError(str(error)) from None
