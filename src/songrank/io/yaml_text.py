"""YAML of bounded size and depth, without code."""

from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, SequenceNode

from songrank.core.limits import RECIPE_DEPTH, RECIPE_VALUES


class BoundedLoader(yaml.SafeLoader):
    r"""Reads plain values; an error if there are too many, counting each use of an alias, or one contains itself.

    >>> yaml.load("a: &one [1, 2]\nb: *one", BoundedLoader)
    {'a': [1, 2], 'b': [1, 2]}
    >>> yaml.load("&a [*a]", BoundedLoader)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    yaml.constructor.ConstructorError: a value contains itself...
    """

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._depth = self._composed = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node, unless it is one too many or too deep."""
        self._depth, self._composed = self._depth + 1, self._composed + 1
        if self._depth > RECIPE_DEPTH or self._composed > RECIPE_VALUES:
            _fail(self._depth, self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def get_single_node(self) -> Any:
        """The document, unless its aliases make it too large."""
        node = super().get_single_node()
        if node is not None:
            _size(node, {}, set())
        return node


def _size(node: Node, sizes: dict[int, int], open_nodes: set[int]) -> int:
    """The number of values of a node, aliases included."""
    if id(node) in open_nodes:
        raise yaml.constructor.ConstructorError(None, None, "a value contains itself", node.start_mark)
    if id(node) not in sizes:
        open_nodes.add(id(node))
        inner: list[Node] = []
        if isinstance(node, SequenceNode):
            inner = node.value
        elif isinstance(node, MappingNode):
            inner = [part for pair in node.value for part in pair]
        sizes[id(node)] = 1 + sum(_size(part, sizes, open_nodes) for part in inner)
        open_nodes.remove(id(node))
        if sizes[id(node)] > RECIPE_VALUES:
            _fail(0, node.start_mark)
    return sizes[id(node)]


def _fail(depth: int, mark: Any) -> None:
    what = f"more than {RECIPE_DEPTH} levels" if depth > RECIPE_DEPTH else f"more than {RECIPE_VALUES:,} values"
    raise yaml.constructor.ConstructorError(None, None, what, mark)
