"""The ``songrank`` command."""

from songrank.cli.main import main

__all__ = ["main"]
