"""Hostile archives and files that are not regular."""

import os
import random
import zipfile
from pathlib import Path

from attacks.mutations import mutated
from attacks.sources import INPUTS
from attacks.tries import BrokenPromiseError, run


def try_archives(random: random.Random, place: Path, base: Path) -> None:
    """Hostile archives and files that are not files."""
    name = random.choice(("movielens-1m", "letor", "xmc-text", "interactions", "arff"))
    file, content, _ = INPUTS[name]
    how, given = random.randrange(8), place / "set.zip"
    with zipfile.ZipFile(given, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        if how == 0:  # a bomb
            filler = random.choice((b"\0", b"\n", b"1", content.encode()[:20]))
            with archive.open(file, "w", force_zip64=True) as member:
                block = filler * (2**20 // len(filler))
                for _ in range(random.choice((64, 400))):
                    member.write(block)
        elif how == 1:
            archive.writestr(f"../../{file}", content)
        elif how == 2:
            archive.writestr(f"/etc/{file}", content)
        elif how == 3:
            archive.writestr(f"\x1b[31m\x07/{file}", content)
            archive.writestr("b\x1b]0;x\x07/" + file, content)
        elif how == 4:
            link = zipfile.ZipInfo(file)
            link.external_attr = 0o120777 << 16
            archive.writestr(link, "/etc/passwd")
        elif how == 5:
            for n in range(random.choice((3, 3000))):
                archive.writestr(f"{n}/{file}", content)
        elif how == 6:
            archive.writestr("inner.zip", b"PK\x03\x04" + random.randbytes(50))
        else:
            archive.writestr(file, mutated(content.encode(), random))
    if how == 7:
        given.write_bytes(mutated(given.read_bytes(), random))
    if random.random() < 0.25:
        given.unlink()
        given = place / file
        match random.randrange(4):
            case 0:
                os.mkfifo(given)
            case 1:
                given.symlink_to("/dev/zero")
            case 2:
                given.symlink_to(given)
            case 3:
                given.symlink_to("/dev/stdin")
    done = run(place, "data", "prepare", name, given, "-o", "out", "-q")
    if done.refused == (place / "out").exists():
        raise BrokenPromiseError(f"exit code {done.code}, but out {'exists' if done.refused else 'is missing'}")
