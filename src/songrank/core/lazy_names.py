"""Names of a package that are imported when they are first used, so that importing the package takes no time."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package: ``homes`` maps names to modules relative to it; ``""`` is a module itself.

    >>> find = lazy_names("songrank.core", {"counted": ".text", "text": ""})
    >>> find("counted")(2, "users"), find("text").__name__
    ('2 users', 'songrank.core.text')

    A name must not be that of a module of the package, which would replace it as soon as the module is imported.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        return getattr(import_module(home, package), name) if home else import_module(f".{name}", package)

    return find
