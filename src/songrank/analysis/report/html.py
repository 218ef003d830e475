"""HTML in which all text that is not :class:`Html` is escaped."""

import base64
import hashlib
import html
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path

from songrank.core.errors import DataError
from songrank.core.text import printable


class Html(str):
    """Text that is already markup."""


def escaped(content: object) -> Html:
    """Escape a text for HTML; control characters are shown as escape sequences."""
    if isinstance(content, Html):
        return content
    return Html(html.escape(printable(content, keep="\n")))


def tag(name: str, *children: object, **attributes: object) -> Html:
    """An element; ``class_`` and ``aria_label`` are ``class`` and ``aria-label``; None and False omit an attribute."""
    words = [name]
    for key, value in attributes.items():
        if value is not None and value is not False:
            key = key.rstrip("_").replace("_", "-")
            words.append(key if value is True else f'{key}="{escaped(value)}"')
    return Html(f"<{' '.join(words)}>{''.join(map(escaped, children))}</{name}>")


def table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[object]], *, words: int = 1) -> Html:
    """A scrollable table; the first ``words`` columns are text, the others numbers."""
    kinds = [None if at < words else "number" for at in range(len(headings))]
    head = tag("tr", *(tag("th", text, scope="col", class_=kind) for text, kind in zip(headings, kinds, strict=True)))
    body = []
    for first, *rest in rows:
        cells = [tag("td", cell, class_=kind) for cell, kind in zip(rest, kinds[1:], strict=True)]
        body.append(tag("tr", tag("th", first, scope="row", class_=kinds[0]), *cells))
    whole = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body))
    return tag("div", whole, class_="scroll", tabindex=0, role="region", aria_label=caption)


def folded(title: str, *content: object, is_open: bool = False) -> Html:
    """A section that opens by a click on its title."""
    return tag("details", tag("summary", title), *content, open=is_open)


def facts(entries: Iterable[tuple[str, object]], class_: str | None = None) -> Html:
    """A definition list; entries without a value are omitted."""
    rows = [tag("div", tag("dt", name), tag("dd", value)) for name, value in entries if value not in (None, "")]
    return tag("dl", *rows, class_=class_)


def captioned(title: str, about: object, *content: object) -> Html:
    """A plot or table with a title and a note."""
    return tag("figure", tag("figcaption", tag("h3", title), tag("span", about)), *content)


def with_data(
    title: str, about: str, *plot: Html, headings: Sequence[str], rows: Iterable[Sequence[object]], words: int = 1
) -> Html:
    """A plot with a folded table of its numbers, which a button saves."""
    button = tag("button", "Save as CSV", type="button", class_="csv")
    return captioned(title, about, *plot, folded("Data", button, table(title, headings, rows, words=words)))


def document(title: str, generator: str, body: Iterable[Html], *, style: str = "", data: str = "") -> str:
    """A self-contained page; with ``data`` as JSON, it includes the only script that its security policy allows."""
    folder = files("songrank.analysis.report")
    script, look = (folder.joinpath(name).read_text(encoding="utf-8") for name in ("page.js", "page.css"))
    scripts = allowed = ""
    if data:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        allowed = f"script-src 'sha256-{digest}'; "
        scripts = f'<script type="application/json" id="songrank-data">{data}</script>\n<script>{script}</script>\n'
    policy = f"default-src 'none'; style-src 'unsafe-inline'; {allowed}base-uri 'none'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"{_marker(generator)}\n"
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>\n{look}{style}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + f"\n{scripts}</body>\n</html>\n"
    )


def _marker(generator: str) -> str:
    """The tag that marks pages of this generator."""
    return f'<meta name="generator" content="{generator}">'


def is_replaceable(place: Path, generator: str, fix: str) -> bool:
    """Whether the file is missing or was written by this generator; ``fix`` is the advice if it cannot be opened."""
    try:
        with place.open("rb") as file:
            return _marker(generator).encode() in file.read(1000)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise DataError(f"cannot be opened ({error.strerror})", fix, file=str(place)) from None
