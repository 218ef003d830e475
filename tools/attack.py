"""Attack songrank: kills, bit flips, mutated inputs, hostile archives and recipes, concurrency, memory.

    python tools/attack.py --minutes 20

Each try is decided by the seed, its group and its number; ``--group bits --only 17 --seed 3`` repeats one. A try runs
the command in a forked process with a limit of time and memory. It fails unless the command ends with exit code 0, or
with exit code 2 (1 for a diverged run) and one line, and what it leaves is whole. A flipped bit must be refused or
have no effect on any result.
"""

import argparse
import contextlib
import gc
import gzip
import hashlib
import importlib
import io
import json
import os
import pkgutil
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import songrank as songrank_package
from songrank import DocumentRanker, Recommender
from songrank.cli.main import main as command
from songrank.data import CatalogueSplit, open_dataset
from songrank.losses.registry import LOSSES
from songrank.training.run import Run

os.environ["POLARS_MAX_THREADS"] = "1"  # read when polars first works, which is in a forked process
SECONDS, BYTES = 60, 2 * 2**30
SHORT = ("model.dim=4", "warm_up.epochs=1", "fine_tuning.epochs=2", "device=cpu")
CLICKS: dict[str, list[Any]] = {
    "user": [f"u{user}" for user in range(30) for _ in range(8)],
    "item": [f"i{(user * 3 + n * n) % 25}" for user in range(30) for n in range(8)],
    "rating": [float(1 + (user + n) % 5) for user in range(30) for n in range(8)],
    "time": [n for _ in range(30) for n in range(8)],
}
LETOR = "".join(f"{d} qid:{q} 1:0.{q} 2:{d} # doc\n" for q in range(1, 21) for d in (0, 1, 2))
TEXTS = "".join(f'{{"title": "text {n}", "content": "more words", "labels": ["a", "b{n % 3}"]}}\n' for n in range(20))
INPUTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "interactions": (
        "log.csv",
        "\n".join(
            [
                "user,item,rating,time",
                *map(",".join, zip(*[map(str, column) for column in CLICKS.values()], strict=True)),
            ]
        ),
        (),
    ),
    "movielens-1m": ("ratings.dat", "".join(f"{u}::{m}::4::{m}\n" for u in (1, 2, 3) for m in (1, 2, 3, 4)), ()),
    "movielens-20m": (
        "ratings.csv",
        "userId,movieId,rating,timestamp\n" + "".join(f"{u},{m},4.0,{m}\n" for u in (1, 2) for m in (1, 2, 3)),
        (),
    ),
    "sequences": (
        "users.txt",
        "".join(f"u{u} " + " ".join(f"i{(u + n) % 7}" for n in range(5)) + "\n" for u in range(9)),
        (),
    ),
    "letor": ("train.txt", LETOR, ()),
    "feature-table": (
        "table.csv",
        "query,label,f1,f2\n" + "".join(f"{q},{d},0.{q},{d}\n" for q in range(9) for d in (0, 1, 2)),
        (),
    ),
    "xmc": ("train.txt", "9 4 5\n" + "0,2 0:0.5 3:1\n1 1:2\n 2:1.5\n" * 3, ()),
    "xmc-text": ("texts.json", TEXTS, ()),
    "arff": (
        "data.arff",
        "@relation 'r: -C 2'\n@attribute f1 numeric\n@attribute l1 {0,1}\n@attribute l2 {0,1}\n@data\n"
        + "1.5,1,0\n2,0,1\n3,1,1\n" * 4,
        (),
    ),
}
RECIPE = """data: data
model: {name: matrix-factorisation, dim: 4}
batch: {queries: 16, relevant: 4, irrelevant: 8}
warm_up: {epochs: 1}
loss: {name: song, gamma: 0.5}
fine_tuning: {epochs: 1, learning_rate: 0.01, decay: {1: 0.5}}
validation: {metric: ndcg@10, every: 1}
device: cpu
"""
TOKENS = [
    b"NaN",
    b"1e999",
    b"-1",
    b"\x00",
    b"\x1b[2J\x07",
    b"99999999999999999999",
    b"",
    b"\r",
    b'"',
    b"\xff\xfe",
    b"::",
]
TOKENS += [
    b"=cmd()",
    b"\xe2\x80\xae",
    b"None",
    b"nan:",
    b"{",
    b"}",
    b"[" * 300,
    b"\n" * 3,
    b" ",
    b"0x1",
    b"1" * 400,
    b"&a",
    b"*a",
]


def import_everything() -> None:
    """Import all modules once, before processes are forked."""
    names = [module.name for module in pkgutil.walk_packages(songrank_package.__path__, "songrank.")]
    for name in [*names, "torch.utils.tensorboard", "optuna", "optuna.storages", "sqlalchemy", "yaml", "pyarrow"]:
        if "kernels" not in name and "__main__" not in name:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    gc.collect()
    gc.freeze()


class BrokenPromiseError(Exception):
    """What songrank must not do."""


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str
    megabytes: float

    @property
    def refused(self) -> bool:
        """Whether it ended with an error."""
        return self.code != 0


def forked(work: Callable[[], Any], place: Path, seconds: float = SECONDS) -> Done:
    """Run ``work`` in a forked process; the exit code is −N for signal N, 70 for an exception."""
    files = [place / f".{name}-{time.monotonic_ns()}" for name in ("out", "err")]
    child = os.fork()
    if child == 0:
        code = 70
        try:
            for number, file in enumerate(files, 1):
                os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            os.chdir(place)
            resource.setrlimit(resource.RLIMIT_AS, (2 * BYTES + 2**33, 2 * BYTES + 2**33))
            work()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    until = time.monotonic() + seconds
    while True:
        found, status, used = os.wait4(child, os.WNOHANG)
        if found:
            break
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.wait4(child, 0)
            raise BrokenPromiseError(f"hangs for {seconds:.0f} s")
        time.sleep(0.003)
    out, err = (file.read_text(errors="replace") for file in files)
    for file in files:
        file.unlink()
    return Done(os.waitstatus_to_exitcode(status), out, err, used.ru_maxrss / 1024)


def songrank(*words: Any) -> Callable[[], None]:
    """The command, to be run in a forked process."""

    def work() -> None:
        sys.argv = ["songrank", *map(str, words)]
        command()

    return work


def judged(done: Done, codes: Sequence[int] = (0, 2)) -> Done:
    """Raise unless the command ended as promised."""
    tail = done.err.strip().splitlines()[-1:] or [""]
    if "Traceback" in done.err:
        raise BrokenPromiseError(f"traceback: {tail[0][:150]}")
    if done.code not in codes:
        raise BrokenPromiseError(f"exit code {done.code}: {tail[0][:150]}")
    if any(not c.isprintable() and c not in "\n\t\r" for c in done.out + done.err):
        raise BrokenPromiseError("control characters in the output")
    errors = [line for line in done.err.splitlines() if line.startswith("error: ")]
    if done.code == 2 and (len(errors) != 1 or not done.err.splitlines()[-1].startswith("error: ")):
        raise BrokenPromiseError(f"not one line: {done.err[:150]!r}")
    if len(done.err) > 20_000:
        raise BrokenPromiseError(f"{len(done.err)} characters of errors")
    if done.megabytes > BYTES / 2**20:
        raise BrokenPromiseError(f"takes {done.megabytes:,.0f} MB")
    return done


def run(place: Path, *words: Any, codes: Sequence[int] = (0, 2)) -> Done:
    """Run the command and judge how it ended."""
    return judged(forked(songrank(*words), place), codes)


def digests(folder: Path, but: Sequence[str] = ()) -> dict[str, str]:
    """The content of all files, by name."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.name not in but)
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(files)}


def mutated(data: bytes, random: random.Random) -> bytes:
    """Some bytes, lines or tokens of the data changed."""
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        at, end = random.randrange(len(data) + 1), random.randrange(len(data) + 1)
        how = random.randrange(8)
        if how == 0 and data:
            at = min(at, len(data) - 1)
            data = data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
        elif how == 1:
            data = data[:at]
        elif how == 2:
            data = data[: min(at, end)] + data[max(at, end) :]
        elif how == 3:
            data = data[:at] + data[min(at, end) : max(at, end)][:500] + data[at:]
        elif how == 4:
            lines = data.split(b"\n")
            random.shuffle(lines)
            data = b"\n".join(lines)
        elif how == 5:
            lines = data.split(b"\n")
            lines[random.randrange(len(lines))] = random.choice(TOKENS)
            data = b"\n".join(lines)
        else:
            data = data[:at] + random.choice(TOKENS) + data[at + (how == 6) * random.randrange(6) :]
    return data


# ---------------------------------------------------------------- what is kept by a user, made once


def make_material(place: Path) -> None:
    """A data set, runs, a study, an estimator and a stopped run, and what each gives."""
    (place / "log.csv").write_text(INPUTS["interactions"][1])
    for name, (file, content, _) in INPUTS.items():
        (place / name).mkdir()
        (place / name / file).write_text(content)
    words: list[list[Any]] = [["data", "prepare", "interactions", "log.csv", "-o", "data", "-q"]]
    for seed in (0, 1):
        words.append(
            ["train", "recommendation", f"data={place / 'data'}", *SHORT, f"seed={seed}", "-o", f"run{seed}", "-q"]
        )
    words.append(["tune", "recommendation", f"data={place / 'data'}", *SHORT, "--trials", 2, "-o", "study", "-q"])
    words.append(["recommend", "run0", "-o", "best.csv", "-q"])
    for each in words:
        if run(place, *each).code:
            raise SystemExit(f"cannot make the material: {each}")

    def fitted() -> None:
        small = {"warm_up.epochs": 1, "model.dim": 4}
        Recommender(model="matrix-factorisation", epochs=1, options=small, verbose=0).fit(CLICKS).save(place / "saved")

    def stopped() -> None:
        from songrank.training import load_recipe

        recipe = load_recipe("recommendation", [f"data={place / 'data'}", *SHORT])
        begun = Run.begin(recipe, place / "stopped", save_every=0.0)
        steps: list[int] = []

        def tick() -> None:
            steps.append(1)
            if len(steps) == 5:
                begun.stop()

        begun.tick = tick
        begun.finish()

    for work in (fitted, stopped):
        if forked(work, place).code:
            raise SystemExit("cannot make the material")
    if run(place, "train", "--resume", shutil.copytree(place / "stopped", place / "resumed"), "-q").code:
        raise SystemExit("cannot resume")


def contents(folder: Path) -> str:
    """A checksum of everything a data set gives."""
    dataset, digest = open_dataset(folder), hashlib.sha256()
    digest.update(
        json.dumps({k: v for k, v in dataset.info.items() if k != "path"}, sort_keys=True, default=str).encode()
    )
    for split in dataset:
        part = dataset[split]
        assert isinstance(part, CatalogueSplit)
        for column in (part.offsets, part.item, part.label):
            digest.update(column.contiguous().numpy().tobytes())
    digest.update(repr([list(dataset.item_ids), list(dataset.query_ids)]).encode())
    return digest.hexdigest()


# ---------------------------------------------------------------- groups of tries


def try_inputs(random: random.Random, place: Path, base: Path) -> None:
    """Mutated inputs of every reader: a data set, or one line and nothing."""
    name = random.choice(list(INPUTS))
    file, content, options = INPUTS[name]
    data, given = mutated(content.encode(), random), place / file
    if random.random() < 0.15:
        given, data = place / (file + ".gz"), mutated(gzip.compress(data), random)
    elif random.random() < 0.1:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"set/{file}", data)
        given, data = place / "set.zip", mutated(stream.getvalue(), random)
    given.write_bytes(data)
    done = run(place, "data", "prepare", name, given, "-o", "out", *options, "-q")
    left = sorted(entry.name for entry in place.iterdir() if entry != given)
    if left != ([] if done.refused else ["out"]):
        raise BrokenPromiseError(f"leaves {left} after exit code {done.code}")
    if not done.refused and judged(forked(lambda: open_dataset(place / "out"), place)).refused:
        raise BrokenPromiseError("a data set that cannot be opened")


def try_recipes(random: random.Random, place: Path, base: Path) -> None:
    """Mutated and hostile recipes: one line, quickly."""
    how, text = random.randrange(10), RECIPE.encode()
    if how == 0:
        depth = random.choice((50, 1000, 100_000))
        text = b"model: " + b"[" * depth + b"]" * depth
    elif how == 1:
        lines = [
            "a0: &a0 [x, x]",
            *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]" for n in range(1, random.choice((5, 30)))),
        ]
        text = "\n".join(lines).encode() + b"\n" + text
    elif how == 2:
        text += "".join(f"key{n}: {n}\n" for n in range(random.choice((50, 30_000)))).encode()
    elif how == 3:
        text = text.replace(b"dim: 4", b"hidden: [" + b"9, " * random.choice((10, 100_000)) + b"9]")
    elif how == 4:
        lines = ["b0: &b0 {x: 1}", *(f"b{n}: &b{n} {{<<: [*b{n - 1}, *b{n - 1}], y{n}: 2}}" for n in range(1, 25))]
        text = "\n".join(lines).encode() + b"\n" + text
    else:
        text = mutated(text, random)
    (place / "recipe.yaml").write_bytes(text)
    started = time.monotonic()
    done = run(place, "train", "recipe.yaml", f"data={place / 'nowhere'}", "-o", "out", "-q")
    if not done.refused:
        raise BrokenPromiseError("trains on a data set that does not exist")
    if time.monotonic() - started > 30:
        raise BrokenPromiseError("takes more than 30 s")
    if (place / "out").exists():
        raise BrokenPromiseError("leaves a run directory")


def try_bits(random: random.Random, place: Path, base: Path) -> None:
    """One flipped bit in a file that a user keeps: refused with one line, or without effect."""
    kind = random.choice(("data", "data", "run", "run", "saved", "evaluation", "stopped", "study"))
    source = base / {"run": "run0", "evaluation": "run0"}.get(kind, kind)
    copied = Path(shutil.copytree(source, place / "copy"))
    files = [
        file for file in copied.rglob("*") if file.is_file() and file.stat().st_size and "tensorboard" not in file.parts
    ]
    if kind == "evaluation":
        files = [file for file in files if file.parent.name == "evaluation"]
    file = random.choice(sorted(files))
    data = bytearray(file.read_bytes())
    at = random.randrange(len(data))
    data[at] ^= 1 << random.randrange(8)
    file.write_bytes(data)
    what = f"{kind}/{file.relative_to(copied)} byte {at}"
    if kind == "data":

        def opened() -> None:
            sys.argv = ["songrank"]
            from songrank.core.errors import UserError

            try:
                print(contents(copied))
            except UserError as error:
                print(f"error: {error}", file=sys.stderr)
                sys.exit(2)

        done = judged(forked(opened, place))
        if not done.refused and done.out != judged(forked(lambda: print(contents(base / "data")), place)).out:
            raise BrokenPromiseError(f"{what}: other data without a word")
    elif kind in ("run", "saved"):
        done = run(place, "recommend", copied, "-o", "best.csv", "-q")
        if kind == "run" and not done.refused and (place / "best.csv").read_bytes() != (base / "best.csv").read_bytes():
            raise BrokenPromiseError(f"{what}: other recommendations without a word")
        if kind == "saved":
            done = judged(forked(lambda: _loaded(copied), place))
            if not done.refused and done.out != judged(forked(lambda: _loaded(base / "saved"), place)).out:
                raise BrokenPromiseError(f"{what}: other recommendations of the estimator without a word")
    elif kind == "evaluation":
        done = run(place, "compare", copied, base / "run1", "--json")
        if not done.refused and done.out.replace(str(copied), "") != run(
            place, "compare", base / "run0", base / "run1", "--json"
        ).out.replace(str(base / "run0"), ""):
            raise BrokenPromiseError(f"{what}: another comparison without a word")
    elif kind == "stopped":
        done = run(place, "train", "--resume", copied, "-q")
        whole = base / "resumed" / "model.safetensors"
        if not done.refused and (copied / "model.safetensors").read_bytes() != whole.read_bytes():
            raise BrokenPromiseError(f"{what}: other weights without a word")
    else:
        run(
            place,
            "tune",
            "recommendation",
            f"data={base / 'data'}",
            *SHORT,
            "--trials",
            2,
            "-o",
            copied,
            "-q",
            codes=(0, 1, 2),
        )


def _loaded(folder: Path) -> None:
    from songrank.core.errors import UserError

    try:
        found = Recommender.load(folder).recommend(k=3)
        print(json.dumps({name: list(map(str, found[name])) for name in found}))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


EVENTS = {
    "open",
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.truncate",
    "os.link",
    "os.symlink",
    "shutil.rmtree",
}


def _writing(base: Path) -> dict[str, list[Any]]:
    """Commands that write an output, by name."""
    return {
        "prepare": ["data", "prepare", "interactions", base / "log.csv", "-o", "out", "-q", "--overwrite"],
        "recommend": ["recommend", base / "run0", "-o", "out.csv", "-q", "--overwrite"],
        "train": [
            "train",
            "recommendation",
            f"data={base / 'data'}",
            *SHORT,
            "seed=0",
            "-o",
            "out",
            "-q",
            "--overwrite",
        ],
    }


def try_kills(random: random.Random, place: Path, base: Path) -> None:
    """A command killed at a file-system event or at a random time; the same command then gives the same bytes."""
    what = random.choice(("prepare", "prepare", "recommend", "train"))
    words = _writing(base)[what]
    left = random.randrange({"prepare": 150, "recommend": 120, "train": 400}[what])
    seconds = random.random() * 0.5 if random.random() < 0.3 else None

    def killed() -> None:
        count = left

        def watch(event: str, arguments: Any) -> None:
            nonlocal count
            if event in EVENTS:
                count -= 1
                if count < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        if seconds is None:
            sys.addaudithook(watch)
        else:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        songrank(*words)()

    done = forked(killed, place)
    if done.code not in (0, -signal.SIGKILL):
        judged(done)
    if what == "train" and (place / "out" / "config.yaml").exists() and random.random() < 0.7:
        words = ["train", "--resume", "out", "-q"]
    if run(place, *words).code:
        raise BrokenPromiseError(f"{what} killed at {left if seconds is None else seconds} cannot be repeated")
    if what == "recommend":
        same = (place / "out.csv").read_bytes() == (base / "best.csv").read_bytes()
    elif what == "prepare":
        same = digests(place / "out") == digests(base / "data")
    else:
        same = all(
            (place / "out" / n).read_bytes() == (base / "run0" / n).read_bytes()
            for n in ("model.safetensors", "metrics.jsonl")
        )
    if not same:
        raise BrokenPromiseError(
            f"{what} killed at {left if seconds is None else seconds} gives other bytes when repeated"
        )
    leftovers = [p.name for p in place.iterdir() if p.name not in ("out", "out.csv")]
    if leftovers:
        raise BrokenPromiseError(f"{what}: leaves {leftovers}")


def try_archives(random: random.Random, place: Path, base: Path) -> None:
    """Hostile archives and files that are not files."""
    name = random.choice(("movielens-1m", "letor", "xmc-text", "interactions", "arff"))
    file, content, _ = INPUTS[name]
    how, given = random.randrange(8), place / "set.zip"
    with zipfile.ZipFile(given, "w", zipfile.ZIP_DEFLATED) as archive:
        if how == 0:  # a bomb
            filler = random.choice((b"\0", b"\n", b"1", content.encode()[:20]))
            with archive.open(file, "w", force_zip64=True) as member:
                block = filler * (2**20 // len(filler))
                for _ in range(random.choice((64, 1024))):
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


def try_together(random: random.Random, place: Path, base: Path) -> None:
    """Two commands on the same output at the same time: each succeeds or says why, and the result is whole."""
    what = random.choice(("prepare", "train", "recommend"))
    words = _writing(base)[what]
    reports = []
    for number in range(2):
        child = os.fork()
        if child == 0:
            try:
                time.sleep(random.random() * 0.1 * number)
                judged(forked(songrank(*words), place))
                os._exit(0)
            except BrokenPromiseError as failure:
                (place.parent / f"{place.name}.said").write_text(str(failure))
            os._exit(1)
        reports.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in reports]
    said = place.parent / f"{place.name}.said"
    if any(codes):
        raise BrokenPromiseError(f"{what} twice at once: {said.read_text() if said.exists() else codes}")
    if what == "prepare" and digests(place / "out") != digests(base / "data"):
        raise BrokenPromiseError("two preparations leave another data set")
    if what == "recommend" and (place / "out.csv").read_bytes() != (base / "best.csv").read_bytes():
        raise BrokenPromiseError("two commands leave another table")
    if (
        what == "train"
        and (place / "out" / "model.safetensors").read_bytes() != (base / "run0" / "model.safetensors").read_bytes()
    ):
        raise BrokenPromiseError("two trainings leave another model")


def try_memory(random: random.Random, place: Path, base: Path) -> None:
    """A loss on a long list, and documents of long lists: memory for the list, not for its square."""
    from songrank import Slate

    name = random.choice([name for name, kind in LOSSES.items() if kind.traits.cost != "O(L²)"])
    size, relevant = random.choice((20_000, 50_000, 100_000)), random.choice((10, 200))

    def step() -> None:
        labels = torch.zeros(1, size)
        labels[:, :relevant] = 1.0
        k = 5 if name in ("k-song", "faster-k-song", "sl-at-k") else None
        slate = Slate.from_batch(labels, torch.zeros(1, dtype=torch.int64), torch.arange(relevant).view(1, -1), k=k)
        object.__setattr__(slate, "complete", True)
        sizes = {"num_pairs": relevant, "num_queries": 1, "queries_per_batch": 1, "active_queries": 1, "seed": 0}
        scores = torch.randn(1, size, requires_grad=True)
        loss = LOSSES[name].build({} if k is None else {"k": k}, sizes)
        loss(scores, slate).backward()
        assert scores.grad is not None
        assert bool(scores.grad.isfinite().all())

    def fit() -> None:
        x, y = torch.randn(3 * size // 10, 4).numpy(), torch.arange(3 * size // 10).remainder(3).numpy()
        small = {"model.hidden": [4], "warm_up.epochs": 1}
        DocumentRanker(epochs=1, options=small, verbose=0).fit(x, y, group=[size // 10] * 3)

    done = judged(forked(step if random.random() < 0.8 else fit, place), (0,))
    if done.megabytes > 1500:
        raise BrokenPromiseError(f"{name} on {size:,} items takes {done.megabytes:,.0f} MB")


GROUPS: dict[str, tuple[int, Callable[[random.Random, Path, Path], None]]] = {
    "inputs": (40, try_inputs),
    "recipes": (20, try_recipes),
    "bits": (20, try_bits),
    "kills": (5, try_kills),
    "archives": (8, try_archives),
    "folders": (8, try_folders),
    "together": (2, try_together),
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
