"""MkDocs hook: formulas become MathML at build time, so that a page needs no JavaScript and no network to show them."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Replace each formula that the Markdown extension ``arithmatex`` has marked."""
    return _FORMULA.sub(_mathml, content)


def _mathml(found: re.Match[str]) -> str:
    tag, bracket, latex = found.groups()
    latex = html.unescape(latex).strip()
    display = "inline" if bracket == "(" else "block"
    formula = convert(latex, display=display)
    return f'<{tag} class="formula" title="{html.escape(latex)}">{formula}</{tag}>'
