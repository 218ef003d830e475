"""Attack songrank: kills, bit flips, mutated inputs, hostile archives and recipes, concurrency, processes, memory.

    python tools/attack.py --minutes 20

Each try is decided by the seed, its group and its number; ``--group bits --only 17 --seed 3`` repeats one. A try runs
the command in a forked process with a limit of time and memory. It fails unless the command ends with exit code 0, or
with exit code 2 (1 for a diverged run) and one line, and what it leaves is whole. A flipped bit must be refused or
have no effect on any result.
"""

import argparse
import os
import sys
import time

os.environ["POLARS_MAX_THREADS"] = "1"  # read when polars first works, which is in a forked process

import torch
from attacks.campaign import GROUPS, attack
from attacks.tries import import_everything


def main() -> None:
    """Read the arguments, and attack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=None, help="by default from the clock; it is printed")
    parser.add_argument("--jobs", type=int, default=2, help="tries at once")
    parser.add_argument("--tries", type=int, default=None, help="end after this number")
    parser.add_argument("--group", action="append", choices=list(GROUPS), help="these groups only; repeatable")
    parser.add_argument("--only", type=int, default=None, help="with --group: this try")
    told = parser.parse_args()
    seed = int(time.time()) % 10**6 if told.seed is None else told.seed
    print(f"seed {seed}", flush=True)
    torch.set_num_threads(1)
    import_everything()
    sys.exit(1 if attack(told.minutes, seed, told.jobs, told.tries, told.group or list(GROUPS), told.only) else 0)


if __name__ == "__main__":
    main()
