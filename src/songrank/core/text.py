"""Small helpers for text that people read."""

import html
from collections.abc import Iterable, Sequence

UNITS = {"recommendation": "users", "labelling": "texts"}
"""What queries are called by task; in other tasks they are queries."""


def printable(text: object, keep: str = "") -> str:
    r"""The text with characters that could steer a terminal as escape sequences, except those in ``keep``.

    These are control characters, line breaks, and marks that change the direction of text.

    >>> print(printable("red \x1b[31m"), printable("a\nb", keep="\n") == "a\nb")
    red \x1b[31m True
    """
    words = str(text)
    if words.isprintable():
        return words
    return "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in words)


def counted(number: int, nouns: str) -> str:
    """A number with its noun, which is given in the plural.

    >>> counted(1, "queries"), counted(1, "users"), counted(1200, "users")
    ('1 query', '1 user', '1,200 users')
    """
    return f"{number:,} {singular(nouns) if number == 1 else nouns}"


def singular(nouns: str) -> str:
    """The singular of a regular noun: query for queries."""
    return nouns.removesuffix("ies") + "y" if nouns.endswith("ies") else nouns.removesuffix("s")


def notebook_table(rows: Iterable[Sequence[object]], title: str, note: str = "") -> str:
    """A small HTML table for notebooks; the first cell of each row is its heading, and all cells are text.

    >>> notebook_table([("mrr", "<b>")], "Metrics")
    '<table><caption>Metrics</caption><tbody><tr><th>mrr</th><td>&lt;b&gt;</td></tr></tbody></table>'
    """

    def cells(row: Sequence[object]) -> str:
        return f"<th>{_escaped(row[0])}</th>" + "".join(f"<td>{_escaped(cell)}</td>" for cell in row[1:])

    body = "".join(f"<tr>{cells(row)}</tr>" for row in rows)
    end = f"<p>{_escaped(note)}</p>" if note else ""
    return f"<table><caption>{_escaped(title)}</caption><tbody>{body}</tbody></table>{end}"


def _escaped(text: object) -> str:
    return html.escape(str(text))
