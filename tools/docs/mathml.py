"""MkDocs hook: formulas become MathML at build time, so that a page needs no JavaScript and no network to show them."""

import html
import re
import unicodedata
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)

_SCRIPT = re.compile(r'<mi mathvariant="script">([A-Z])</mi>')  # which browsers do not follow


def on_page_content(content: str, **_: Any) -> str:
    """Replace each formula that the Markdown extension ``arithmatex`` has marked."""
    return _FORMULA.sub(_mathml, content)


def _mathml(found: re.Match[str]) -> str:
    tag, bracket, latex = found.groups()
    latex = html.unescape(latex).strip()
    display = "inline" if bracket == "(" else "block"
    formula = _SCRIPT.sub(lambda letter: f"<mi>{script(letter[1])}</mi>", convert(latex, display=display))
    return f'<{tag} class="formula" title="{html.escape(latex)}">{formula}</{tag}>'


def script(letter: str) -> str:
    """The letter of calligraphic mathematics.

    >>> script("S"), script("B")
    ('𝒮', 'ℬ')
    """
    for name in (f"MATHEMATICAL SCRIPT CAPITAL {letter}", f"SCRIPT CAPITAL {letter}"):
        try:
            return unicodedata.lookup(name)
        except KeyError:
            continue
    return letter
