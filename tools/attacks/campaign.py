"""The campaign: tries of all groups until the time is over, and their table."""

import contextlib
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from attacks.archives import try_archives
from attacks.bits import try_bits
from attacks.folders import try_folders
from attacks.inputs import try_inputs
from attacks.kills import try_kills
from attacks.material import make_material
from attacks.memory import try_memory
from attacks.processes import try_processes
from attacks.recipes import try_recipes
from attacks.together import try_together
from attacks.tries import BrokenPromiseError

GROUPS: dict[str, tuple[int, Callable[[random.Random, Path, Path], None]]] = {
    "inputs": (40, try_inputs),
    "recipes": (20, try_recipes),
    "bits": (20, try_bits),
    "kills": (6, try_kills),
    "archives": (8, try_archives),
    "folders": (8, try_folders),
    "together": (2, try_together),
    "processes": (2, try_processes),
    "memory": (1, try_memory),
}
"""The groups and how often each is tried."""


def one_try(group: str, number: int, seed: int, place: Path, base: Path) -> None:
    """Run a try in this process; write what failed to a file beside its directory."""
    os.setpgid(0, 0)
    said = ""
    try:
        GROUPS[group][1](random.Random(f"{seed} {group} {number}"), place, base)
    except BrokenPromiseError as failure:
        said = str(failure)
    except BaseException as error:
        said = f"the attack itself: {type(error).__name__}: {str(error)[:200]}"
    (place.parent / f"{place.name}.txt").write_text(said)
    os._exit(0)


def attack(minutes: float, seed: int, jobs: int, tries: int | None, groups: Sequence[str], only: int | None) -> int:
    """Try until the time is over; print the table; return the number of failures."""
    tried, failed, longest = dict.fromkeys(GROUPS, 0), dict.fromkeys(GROUPS, 0), dict.fromkeys(GROUPS, 0.0)
    draw, failures = random.Random(seed), list[tuple[str, int, str]]()
    running: dict[int, tuple[str, int, Path, float]] = {}
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        (base := Path(folder) / "base").mkdir()
        make_material(base)
        started = time.monotonic()
        counts = dict.fromkeys(GROUPS, 0)
        total = 0
        while True:
            over = time.monotonic() - started > 60 * minutes or (tries is not None and total >= tries)
            over = over or (only is not None and total > 0)
            while len(running) < jobs and not over:
                group = draw.choices(groups, [GROUPS[name][0] for name in groups])[0]
                number = counts[group] if only is None else only
                counts[group], total = counts[group] + 1, total + 1
                (place := Path(folder) / f"{group}-{number}").mkdir()
                child = os.fork()
                if child == 0:
                    one_try(group, number, seed, place, base)
                running[child] = (group, number, place, time.monotonic())
                over = only is not None or (tries is not None and total >= tries)
            if not running:
                break
            child, _ = os.waitpid(-1, os.WNOHANG)
            if not child:
                time.sleep(0.003)
                continue
            group, number, place, began = running.pop(child)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            file = place.parent / f"{place.name}.txt"
            said = file.read_text() if file.exists() else "the try itself was killed"
            tried[group] += 1
            longest[group] = max(longest[group], time.monotonic() - began)
            if said:
                failed[group] += 1
                failures.append((group, number, said))
                print(f"FAILED {group} {number}: {said}", flush=True)
            for left in place.parent.glob(f"{place.name}.*"):
                left.unlink()
            shutil.rmtree(place, ignore_errors=True)
        seconds = time.monotonic() - started
    print(f"\nseed {seed}, {seconds / 60:.1f} minutes, {jobs} at once\n")
    print("| group | tries | failures | longest try |\n|---|---|---|---|")
    for group in groups:
        print(f"| {group} | {tried[group]:,} | {failed[group]} | {longest[group]:.1f} s |")
    print(f"| all | {sum(tried.values()):,} | {sum(failed.values())} | {max(longest.values()):.1f} s |")
    return len(failures)
