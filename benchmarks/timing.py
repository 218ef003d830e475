"""Side-by-side timing in alternating rounds, so that other work on the machine affects all candidates."""

import statistics
import time
from collections.abc import Callable, Mapping

import torch


def medians(steps: Mapping[str, Callable[[], object]], rounds: int = 30, warm_up: int = 3) -> dict[str, float]:
    """Median milliseconds per step."""
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for at in range(warm_up + rounds):
        for name, step in steps.items():
            _wait()
            start = time.perf_counter()
            step()
            _wait()
            if at >= warm_up:
                taken[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in taken.items()}


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def table(title: str, rows: Mapping[str, float], baseline: str | None = None) -> None:
    """Print milliseconds, and the speed of each row relative to the baseline."""
    print(f"\n{title}")
    for name, value in rows.items():
        faster = f"{rows[baseline] / value:8.1f} × as fast as {baseline}" if baseline and name != baseline else ""
        print(f"  {name:34s} {value:9.3f} ms{faster}")
