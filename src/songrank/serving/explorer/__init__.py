"""A local page that shows what models recommend to a user, and what another history would change."""

from songrank.serving.explorer.answers import Explorer
from songrank.serving.explorer.server import ExplorerServer

__all__ = ["Explorer", "ExplorerServer"]
