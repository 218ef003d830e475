"""Nested state dictionaries as JSON and tensors, without pickle: the content of checkpoints."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

_TENSOR, _PAIRS, _TUPLE = "__tensor__", "__pairs__", "__tuple__"


def flatten(state: Any) -> tuple[Any, dict[str, Tensor]]:
    """Replace each tensor of a tree by a reference, and return the tree and the tensors by number.

    A tree has dictionaries (with keys of any plain type), lists, tuples, numbers, texts, None and tensors.

    >>> tree, tensors = flatten({"step": 3, "weights": [torch.ones(2)], 7: (1.5, None)})
    >>> sorted(tensors), unflatten(tree, tensors)
    (['0'], {'step': 3, 'weights': [tensor([1., 1.])], 7: (1.5, None)})
    """
    tensors: dict[str, Tensor] = {}

    def pack(value: Any) -> Any:
        if isinstance(value, Tensor):
            name = str(len(tensors))
            tensors[name] = value.detach().to("cpu", copy=True).contiguous()
            return {_TENSOR: name}
        if isinstance(value, Mapping):
            if all(isinstance(key, str) and not key.startswith("__") for key in value):
                return {key: pack(entry) for key, entry in value.items()}
            return {_PAIRS: [[pack(key), pack(entry)] for key, entry in value.items()]}
        if isinstance(value, tuple):
            return {_TUPLE: [pack(entry) for entry in value]}
        if isinstance(value, list):
            return [pack(entry) for entry in value]
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        expected = "tensors, numbers, texts, lists and dictionaries"
        raise TypeError(f"state holds a {type(value).__name__}; expected {expected}")

    return pack(state), tensors


def unflatten(tree: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The inverse of :func:`flatten`."""
    if isinstance(tree, list):
        return [unflatten(entry, tensors) for entry in tree]
    if not isinstance(tree, dict):
        return tree
    if _TENSOR in tree:
        return tensors[tree[_TENSOR]]
    if _TUPLE in tree:
        return tuple(unflatten(entry, tensors) for entry in tree[_TUPLE])
    if _PAIRS in tree:
        return {unflatten(key, tensors): unflatten(entry, tensors) for key, entry in tree[_PAIRS]}
    return {key: unflatten(entry, tensors) for key, entry in tree.items()}


def random_state() -> dict[str, Any]:
    """The state of all random generators of torch; songrank does not use those of Python and numpy."""
    state: dict[str, Any] = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_random_state(state: Mapping[str, Any]) -> None:
    """Restore all generators."""
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
