"""Griffe extension: docstrings in the style of this package become the Markdown that mkdocstrings renders.

Examples after ``>>>`` get a fence, ``:class:`Name``` and its like become code, and reStructuredText tables stay as they
are, in a fence.
"""

import re
from typing import Any

import griffe

ALIASES = {
    "Gamma": "float",
    "Positive": "float",
    "NotNegative": "float",
    "Dropped": "float",
    "Count": "int",
    "SurrogateName": "str",
    "Activation": "str",
    "Features": "Tensor | tuple[Tensor, Tensor, Tensor]",
    "Gain": "str | Callable[[Tensor], Tensor]",
    "Rows": "dict[str, Tensor]",
}
"""Names of types that are annotations with constraints, or shorthands, in the code."""
_ALIAS = re.compile(rf"\b(?:{'|'.join(ALIASES)})\b")
_ROLE = re.compile(r":(?:class|func|mod|meth|attr|data):`~?([^`]+)`")


class Docstrings(griffe.Extension):
    """Rewrites each docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite one docstring, if there is one."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
        if isinstance(obj, griffe.Function):
            for parameter in obj.parameters:
                parameter.annotation = _plain(parameter.annotation)
            obj.parameters = griffe.Parameters(*(each for each in obj.parameters if _shown(each.name)))


def _plain(annotation: Any) -> Any:
    """The annotation with the names of annotated types replaced by what they are.

    >>> _plain("Gamma"), _plain("NotNegative | None"), _plain("Tensor")
    ('float', 'float | None', 'Tensor')
    """
    text = str(annotation)
    plain = _ALIAS.sub(lambda name: ALIASES[name[0]], text)
    return annotation if plain == text else plain


def _shown(name: str) -> bool:
    return not name.startswith("_")


def as_markdown(text: str) -> str:
    r"""The text with fences around examples and tables.

    >>> as_markdown("See :class:`Sum`.\n\n>>> 1 + 1\n2").splitlines()
    ['See `Sum`.', '', '```pycon', '>>> 1 + 1', '2', '```']
    """
    lines: list[str] = []
    end: str | None = None  # what closes the open fence: a blank line for an example, a rule for a table
    rules = 0
    for line in _ROLE.sub(r"`\1`", text).split("\n"):
        bare = line.strip()
        if end == "example" and not bare:
            lines.append("```")
            end = None
        is_rule = re.fullmatch(r"=+( +=+)+", bare) is not None
        if end is None and bare.startswith(">>> "):
            _blank(lines)
            lines.append("```pycon")
            end = "example"
        elif end is None and is_rule:
            _blank(lines)
            lines.append("```text")
            end, rules = "table", 0
        lines.append(line.strip() if end == "example" and bare.startswith((">>>", "...")) else line)
        rules += is_rule
        if end == "table" and (rules == 3 or (rules == 2 and is_rule and _is_headless(text, line))):
            lines.append("```")
            end = None
    if end is not None:
        lines.append("```")
    return "\n".join(lines)


def _blank(lines: list[str]) -> None:
    if lines and lines[-1].strip():
        lines.append("")


def _is_headless(text: str, rule: str) -> bool:
    return text.count(rule) == 2
