"""Folders with missing, foreign and special files."""

import os
import random
import shutil
from pathlib import Path
from typing import Any

from attacks.mutations import mutated
from attacks.sources import SHORT
from attacks.tries import run


def try_folders(random: random.Random, place: Path, base: Path) -> None:
    """Folders with missing, empty, foreign and special files, and outputs onto them."""
    kind = random.choice(("run0", "data", "saved", "study"))
    copied = Path(shutil.copytree(base / kind, place / "copy"))
    file = random.choice(
        sorted(file for file in copied.rglob("*") if file.is_file() and "tensorboard" not in file.parts)
    )
    old, how = file.read_bytes(), random.randrange(7)
    file.unlink()
    match how:
        case 0:
            pass
        case 1:
            file.write_bytes(b"")
        case 2:
            file.mkdir()
        case 3:
            os.mkfifo(file)
        case 4:
            file.symlink_to(random.choice(("/dev/zero", "/dev/null", file, "/etc/shadow")))
        case 5:
            file.write_bytes(
                random.choice((b"[" * 100_000, b"{}", b"[]", b"null", b'"x"', random.randbytes(200), b"1e999"))
            )
        case 6:
            file.write_bytes(mutated(old, random))
    table: dict[str, list[Any]] = {
        "run0": random.choice(
            (
                ["recommend", copied, "-o", "b.csv"],
                ["evaluate", copied],
                ["compare", copied, base / "run1"],
                ["report", copied],
                ["export", copied, "-o", "m.pt2"],
            )
        ),
        "data": ["train", "recommendation", f"data={copied}", *SHORT, "-o", "out"],
        "saved": ["recommend", copied, "-o", "b.csv"],
        "study": ["tune", "recommendation", f"data={base / 'data'}", *SHORT, "--trials", 2, "-o", copied],
    }
    words = table[kind]
    run(place, *words, codes=(0, 1, 2))
