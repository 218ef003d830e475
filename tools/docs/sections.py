"""Generated parts of hand-written reference pages, as Markdown."""

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, get_args

import typer
from pydantic import BaseModel

from songrank.cli.main import app
from songrank.core.options import constraints
from songrank.data.registry import all_kinds
from songrank.losses.base import ListLoss
from songrank.losses.registry import LOSSES
from songrank.models.registry import MODELS
from songrank.training.config.components import option_class
from songrank.training.config.recipe import Recipe
from songrank.training.config.yaml_text import shipped_recipes
from songrank.training.optim.registry import OPTIMISERS

Row = tuple[str, ...]


def table(head: Row, rows: Sequence[Row]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def plain(value: Any) -> str:
    """A default as a recipe or a command line has it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(plain, value)) + "]"
    if isinstance(value, Mapping) or hasattr(value, "__dataclass_fields__") or isinstance(value, BaseModel):
        return "" if value == {} else "see below"
    return str(value)


def code(text: str) -> str:
    """The text as code, nothing for nothing."""
    return text if text in ("", "required", "see below") else f"`{text}`"


# ---- the command line


def commands() -> Iterator[tuple[str, Any]]:
    """Each command with its full name."""
    yield from _commands("songrank", typer.main.get_command(app))


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "list_commands"):
        yield name, command
        return
    for word in command.list_commands(None):
        yield from _commands(f"{name} {word}", command.get_command(None, word))


def cli() -> str:
    """Every command: what it does, its arguments, its options."""
    rows = [(f"[`{name}`](#{name.replace(' ', '-')})", _first_line(command.help)) for name, command in commands()]
    return "\n\n".join([table(("command", "purpose"), rows), *(_command(*entry) for entry in commands())])


def _first_line(text: str | None) -> str:
    return (text or "").strip().split("\n\n")[0].replace("\n", " ")


def _command(name: str, command: Any) -> str:
    arguments = [param for param in command.params if _is_argument(param)]
    options = [param for param in command.params if not _is_argument(param) and not getattr(param, "hidden", False)]
    words = [_usage(param) for param in arguments]
    parts = [f"## {name}", _help_text(command.help or ""), f"```text\n{' '.join([name, '[OPTIONS]', *words])}\n```"]
    if arguments:
        named = [(code(_metavar(param)), str(param.help or "")) for param in arguments]
        parts.append(table(("argument", "meaning"), named))
    rows = [(_option_names(param), _type(param), _default(param), str(param.help or "")) for param in options]
    rows.append(("`-h` `--help`", "", "", "Show the help and exit."))
    parts.append(table(("option", "type", "default", "meaning"), rows))
    return "\n\n".join(parts)


def _is_argument(param: Any) -> bool:
    return not any(word.startswith("-") for word in param.opts)


def _metavar(param: Any) -> str:
    return str(param.metavar or param.name).strip("[]{}.").upper()


def _usage(param: Any) -> str:
    word = _metavar(param) + ("..." if param.nargs == -1 or param.multiple else "")
    return word if param.required else f"[{word}]"


def _option_names(param: Any) -> str:
    names = sorted(param.opts, key=len)
    return " ".join(map(code, [*names, *param.secondary_opts]))


def _type(param: Any) -> str:
    annotation = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    name = getattr(annotation, "__name__", str(annotation))
    word = {"bool": "flag", "str": "text", "int": "integer", "float": "number", "Path": "path"}.get(name, "text")
    return word + (", repeatable" if param.multiple else "")


def _default(param: Any) -> str:
    if param.required:
        return "required"
    value = param.default
    return "" if value in (None, False, [], ()) else code(plain(value))


def _help_text(text: str) -> str:
    """Help as Markdown: examples that are indented become code."""
    return "\n\n".join(_paragraph(part) for part in text.strip().split("\n\n"))


def _paragraph(part: str) -> str:
    lines = part.split("\n")
    if all(line.startswith("    ") for line in lines):
        return "```sh\n" + "\n".join(line[4:] for line in lines) + "\n```"
    indented = [number for number, line in enumerate(lines) if line.startswith("    ")]
    if indented and "songrank" in lines[indented[0]]:
        text, examples = lines[: indented[0]], lines[indented[0] :]
        block = "\n".join(line.strip() for line in examples)
        return " ".join(text) + f"\n\n```sh\n{block}\n```"
    return re.sub(r"\s+", " ", part.replace("<", "&lt;"))


# ---- data set kinds


def kinds() -> str:
    """Every kind of data set with its options and presets."""
    rows = [(f"[`{kind.name}`](#{kind.name})", kind.task, kind.title, kind.wants) for kind in all_kinds().values()]
    parts = [table(("kind", "task", "what it is", "source"), rows)]
    described: dict[str, str] = {}
    for kind in all_kinds().values():
        parts.append(f"## {kind.name}")
        parts.append(f"{kind.title}. Source: {kind.wants}.")
        if len(kind.presets) > 1:
            parts.append(f"Default preset: `{kind.default_preset}`.")
        options = _kind_options(kind)
        if options in described:
            parts.append(f"The options and defaults are those of [`{described[options]}`](#{described[options]}).")
        else:
            described[options] = kind.name
            parts.append(options)
    return "\n\n".join(parts)


def _kind_options(kind: Any) -> str:
    presets = sorted(kind.presets, key=lambda name: name != kind.default_preset)
    columns = [{option: value for option, value, _ in kind.option_table(preset)} for preset in presets]
    values = [f"`--preset {name}`" for name in presets] if len(presets) > 1 else ["default"]
    head = ("option", *values, "meaning")
    flags = kind.flags()
    rows = [
        (
            code("--" + option.replace("_", "-")) + (" (flag)" if flags[option] else ""),
            *(code(plain(values[option])) for values in columns),
            meaning,
        )
        for option, _, meaning in kind.option_table()
    ]
    return table(head, rows)


# ---- recipes


def recipe_keys() -> str:
    """Every key of a recipe, section by section."""
    parts = [_section("Top level", "", Recipe)]
    for name, field in Recipe.model_fields.items():
        section = _model(field.annotation)
        if section is not None:
            parts.append(_section(f"`{name}`", f"{name}.", section))
    return "\n\n".join(parts)


def _model(annotation: Any) -> type[BaseModel] | None:
    for part in (annotation, *get_args(annotation)):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part
    return None


def _section(title: str, prefix: str, section: type[BaseModel]) -> str:
    rows = []
    for name, field in section.model_fields.items():
        value = "required" if field.is_required() else plain(field.default)
        if _model(field.annotation) is not None:
            value, kind = "", "section"
        else:
            kind = _annotation(field.annotation)
        rows.append((code(prefix + name), kind, code(value), field.description or ""))
    intro = [] if section is Recipe else [(section.__doc__ or "").strip().split("\n\n")[0]]
    return "\n\n".join([f"## {title}", *intro, table(("key", "type", "default", "meaning"), rows)])


def _annotation(annotation: Any) -> str:
    """A type in words."""
    text = str(annotation)
    if text.startswith("typing.Literal"):
        return " or ".join(code(str(value)) for value in get_args(annotation))
    if hasattr(annotation, "__metadata__") or get_args(annotation):
        parts = [part for part in get_args(annotation) if isinstance(part, type) or get_args(part)]
        words = [_annotation(part) for part in parts]
        if text.startswith("dict"):
            return "mapping" if "Any" in text else "mapping of " + " to ".join(words)
        if text.startswith(("list", "collections.abc.Sequence")):
            return "list of " + " or ".join(words)
        return " or ".join(dict.fromkeys(words))
    names = {"int": "integer", "float": "number", "str": "text", "bool": "`true` or `false`", "NoneType": "none"}
    return names.get(getattr(annotation, "__name__", text), getattr(annotation, "__name__", text))


def loss_options() -> str:
    """Options of each loss in a recipe."""
    return _components(LOSSES)


def model_options() -> str:
    """Options of each model in a recipe."""
    return _components(MODELS)


def _components(kinds: Mapping[str, Any]) -> str:
    parts = []
    for name, kind in kinds.items():
        parts.append(f"### `{name}`")
        module = "models" if kind in MODELS.values() else "losses"
        link = f"[`{kind.__name__}`](api/{module}.md#songrank.{module}.{kind.__name__})"
        parts.append(f"{_sentence(kind)} Class: {link}.")
        fields = option_class(kind).model_fields
        if not fields:
            parts.append("It has no options.")
            continue
        meanings = arguments(kind)
        rows = []
        for option, field in fields.items():
            choice = constraints(kind.__init__).get(option)
            default = "required" if field.is_required() else plain(field.default)
            words = " or ".join(code(word) for word in getattr(choice, "choices", ())) or _annotation(field.annotation)
            rows.append((code(option), words, code(default), meanings.get(option, "")))
        parts.append(table(("option", "type", "default", "meaning"), rows))
    return "\n\n".join(parts)


def _sentence(kind: Any) -> str:
    text = (kind.__doc__ or "").strip().split("\n\n")[0]
    text = re.sub(r"\s+", " ", re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)).replace("``", "`")
    return text if text.endswith(".") else text.rstrip(":") + "."


@functools.cache
def arguments(kind: Any) -> dict[str, str]:
    """The description of each argument in the docstrings of the class, its bases and, of a list loss, its formula."""
    found: dict[str, str] = {}
    formula = [kind.formula] if issubclass(kind, ListLoss) else []
    for each in (*formula, *reversed(kind.__mro__)):
        text = each.__dict__.get("__doc__") or "" if isinstance(each, type) else each.__doc__ or ""
        _, begins, rest = text.partition("Args:\n")
        if begins:
            found |= _described(rest)
    return found


def _described(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    names: list[str] = []
    indent: int | None = None
    for line in text.split("\n"):
        if not line.strip():
            break
        here = len(line) - len(line.lstrip())
        indent = here if indent is None else indent
        head = re.match(r"\s*([\w*]+(?:, [\w*]+)*): (.*)", line)
        if here == indent and head:
            names = head[1].split(", ")
            found.update(dict.fromkeys(names, head[2]))
        else:
            found.update({name: f"{found[name]} {line.strip()}" for name in names})
    return {name: re.sub(r":\w+:`~?([^`]+)`", r"`\1`", words).replace("``", "`") for name, words in found.items()}


def value_options() -> str:
    """The sections within a loss: ``threshold``, ``form`` and a schedule as ``gamma``."""
    from dataclasses import fields

    from songrank.losses import FasterForm, PaperForm, Schedule, ThresholdOptions

    parts = []
    for title, kind in (
        ("`loss.threshold` of `k-song` and `faster-k-song`", ThresholdOptions),
        ("`loss.form` of `song`, `k-song` and `listwise-ce`", PaperForm),
        ("`loss.form` of `faster-song` and `faster-k-song`", FasterForm),
        ("`loss.gamma` of the faster losses, as a schedule", Schedule),
    ):
        meanings = arguments(kind)
        rows = []
        for field in fields(kind):
            default = "required" if "MISSING" in str(field.default) else plain(field.default)
            rows.append((code(field.name), code(default), meanings.get(field.name, "")))
        parts += [f"### {title}", table(("option", "default", "meaning"), rows)]
    return "\n\n".join(parts)


def optimisers() -> str:
    """What each optimiser can do."""
    rows = [
        (code(name), "yes" if kind.whole_gradient else "no", "yes" if kind.second_moment else "no")
        for name, kind in OPTIMISERS.items()
    ]
    head = ("optimiser", "with `clip` and frequency-scaled weight decay", "Adam form with the faster losses")
    return table(head, rows)


def recipes() -> str:
    """Shipped recipes, whole."""
    import yaml

    texts = shipped_recipes()
    rows = [(f"[`{name}`](#{name})", str(yaml.safe_load(text)["title"])) for name, text in texts.items()]
    parts = [table(("recipe", "purpose"), rows)]
    for name, text in texts.items():
        parts += [f"## {name}", f"```yaml\n{text.strip()}\n```"]
    return "\n\n".join(parts)


SECTIONS: dict[str, Callable[[], str]] = {
    "cli": cli,
    "kinds": kinds,
    "recipe-keys": recipe_keys,
    "loss-options": loss_options,
    "model-options": model_options,
    "value-options": value_options,
    "optimisers": optimisers,
    "recipes": recipes,
}
