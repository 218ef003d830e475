"""Small helpers for text that people read."""

UNITS = {"recommendation": "users", "labelling": "texts"}
"""What queries are called by task; in other tasks they are queries."""


def counted(number: int, nouns: str) -> str:
    """A number with its noun, which is given in the plural.

    >>> counted(1, "queries"), counted(1, "users"), counted(1200, "users")
    ('1 query', '1 user', '1,200 users')
    """
    return f"{number:,} {singular(nouns) if number == 1 else nouns}"


def singular(nouns: str) -> str:
    """The singular of a regular noun: query for queries."""
    return nouns.removesuffix("ies") + "y" if nouns.endswith("ies") else nouns.removesuffix("s")
