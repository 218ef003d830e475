"""Former names of recipe keys; this release still reads them."""

from collections.abc import Callable, Mapping
from typing import Any

FORMER_KEYS = {f"{stage}.average": f"{stage}.ema_decay" for stage in ("warm_up", "fine_tuning")}
"""Former key and current key, both as dotted paths."""


def read_former_keys(values: Mapping[str, Any], warn: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Rename the former keys of a recipe or of a part of one; ``warn`` is called with one line for each.

    >>> read_former_keys({"fine_tuning": {"average": 0.98}}, print)
    fine_tuning.average is now fine_tuning.ema_decay
    {'fine_tuning': {'ema_decay': 0.98}}
    """
    found = dict(values)
    for former, current in FORMER_KEYS.items():
        (stage, old), new = former.split("."), current.rpartition(".")[2]
        section = found.get(stage)
        if isinstance(section, Mapping) and old in section and new not in section:
            found[stage] = {new if key == old else key: value for key, value in section.items()}
            if warn is not None:
                warn(f"{former} is now {current}")
    return found
