"""The state of a training on several processes, and its division among any other number of them.

The state of the first process is complete except for rows of other processes. The states of these have their rows
only; they are in the list ``"parts"``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from songrank.losses.memory import merge_states

_WEIGHTS = ("model", "best", "mean")
LAYOUT = "rows"
"""The key of a state with the range of its rows."""


def complete(state: dict[str, Any]) -> dict[str, Any]:
    """The state of a single process, from that of any number of them."""
    return divided(state, None, 0)


def own_part(state: Mapping[str, Any]) -> dict[str, Any]:
    """The rows of a process other than the first: tables of queries, their optimiser state, memory and generators."""
    tables, numbers = state[LAYOUT]["tables"], state[LAYOUT]["optimised"]
    part: dict[str, Any] = {
        name: None if state[name] is None else {key: state[name][key] for key in tables if key in state[name]}
        for name in _WEIGHTS
    }
    entries = {} if state["optimiser"] is None else state["optimiser"]["state"]
    part["optimiser"] = {number: entries[number] for number in numbers if number in entries}
    return {**part, **{name: state[name] for name in (LAYOUT, "losses", "random")}}


def divided(state: dict[str, Any], queries: tuple[int, int] | None, rank: int) -> dict[str, Any]:
    """The state of one process with the rows of these queries (None for all), from those of any number of processes.

    Rows are taken from the states that have them; counts of guards are kept by the first process. The generators are
    those of the same process; None if it did not exist.
    """
    first = {LAYOUT: {"tables": [], "optimised": [], "queries": None}, **state}
    states = [first, *first.get("parts", [])]
    found = {name: value for name, value in first.items() if name not in (LAYOUT, "parts")}
    found["random"] = states[rank]["random"] if rank < len(states) else None
    found["losses"] = [
        _memory([state["losses"][number] for state in states], rank) for number in range(len(first["losses"]))
    ]
    ranges = [state[LAYOUT]["queries"] for state in states]
    for name in _WEIGHTS:
        if first[name] is not None:
            tables = {key: _rows([s[name][key] for s in states], ranges, queries) for key in first[LAYOUT]["tables"]}
            found[name] = {**first[name], **tables}
    if first["optimiser"] is not None and len(states) > 1:
        entries = dict(first["optimiser"]["state"])
        parts = [first["optimiser"]["state"], *(state["optimiser"] for state in states[1:])]
        for number in first[LAYOUT]["optimised"]:
            if number in entries:
                some = [part[number] for part in parts]
                entries[number] = {
                    name: _rows([one[name] for one in some], ranges, queries) if value.dim() else value
                    for name, value in entries[number].items()
                }
        found["optimiser"] = {**first["optimiser"], "state": entries}
    if len(states) > 1:  # files are memory-mapped
        found |= {name: _copied(found[name]) for name in ("best", "optimiser", "values")}
    return found


def narrowed(state: dict[str, Any], tables: Sequence[str], optimised: Sequence[int], queries: tuple[int, int]) -> None:
    """Reduce complete tables of queries, and their optimiser state, to the rows of these queries, in place."""
    rows = slice(*queries)
    for name in _WEIGHTS:
        if state[name] is not None:
            state[name] = {key: value[rows] if key in tables else value for key, value in state[name].items()}
    if state["optimiser"] is not None:
        entries = dict(state["optimiser"]["state"])
        for number in optimised:
            if number in entries:
                entry = entries[number].items()
                entries[number] = {name: value[rows] if value.dim() else value for name, value in entry}
        state["optimiser"] = {**state["optimiser"], "state": entries}


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    return {key: _copied(entry) for key, entry in value.items()} if isinstance(value, dict) else value


def _rows(parts: Sequence[Tensor], ranges: Sequence[Sequence[int]], queries: tuple[int, int] | None) -> Tensor:
    """The rows of these queries, of consecutive parts."""
    first, last = (0, ranges[-1][1]) if queries is None else queries
    inside = [
        part[max(first, begin) - begin : max(0, min(last, end) - begin)]
        for part, (begin, end) in zip(parts, ranges, strict=True)
        if begin < last and first < end
    ]
    return inside[0] if len(inside) == 1 else torch.cat(inside)


def _memory(states: Sequence[dict[str, Tensor]], rank: int) -> dict[str, Tensor]:
    """The state of a loss; a loss takes the rows that it holds."""
    merged = merge_states(states) if len(states) > 1 and states[0] else states[0]
    if rank == 0:
        return merged
    return {name: torch.zeros_like(v) if name.endswith("guarded") else v for name, v in merged.items()}
