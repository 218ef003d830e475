"""Flipped bits in the files that a user keeps: refused with one line, or without effect on any result."""

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from attacks.mutations import flip
from attacks.sources import SHORT
from attacks.tries import BrokenPromiseError, Done, answer, digests, forked, judged, run
from songrank import Recommender
from songrank.data import CatalogueSplit, open_dataset
from songrank.training import load_recipe

Use = Callable[[Path, Path, Path], Done]


def try_bits(random: random.Random, place: Path, base: Path) -> None:
    """One flipped bit: each use of the folder is refused with one line, or gives what it gave before."""
    kind = random.choice(list(USES))
    folder, uses = USES[kind]
    copied = Path(shutil.copytree(base / folder, place / "copy"))
    files = [file for file in copied.rglob("*") if file.is_file() and file.stat().st_size]
    if kind == "evaluation":
        files = [file for file in files if file.parent.name == "evaluation"]
    file = random.choice(sorted(file for file in files if "tensorboard" not in file.parts))
    names = file.name, file.parent.name if file.parent != copied else file.name
    what = f"{kind}/{file.relative_to(copied)} byte {flip(file, random)}"
    for use in uses:
        done, expected = use(place, base, copied), expected_file(base, kind, use).read_text()
        if done.refused and not any(name in done.err for name in names):
            raise BrokenPromiseError(f"{what}: {use.__name__} does not name it: {done.err[-150:]}")
        if not done.refused and done.out != expected and not (use is reported and any(n in done.out for n in names)):
            raise BrokenPromiseError(f"{what}: another result of {use.__name__}, without a word")


def expect(base: Path) -> None:
    """Write the result of each use of undamaged folders."""
    for kind, (folder, uses) in USES.items():
        (place := base / "expected" / kind).mkdir(parents=True)
        copied = Path(shutil.copytree(base / folder, place / "copy"))
        for use in uses:
            done = use(place, base, copied)
            if done.refused:
                raise SystemExit(f"{use.__name__} {kind}: {done.err}")
            expected_file(base, kind, use).write_text(done.out)


def expected_file(base: Path, kind: str, use: Use) -> Path:
    """Where the result of a use is kept."""
    return base / "expected" / kind / f"{use.__name__}.txt"


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
    for rows in dataset.features.values():
        for array in () if rows is None else rows.tensors().values():
            digest.update(array.contiguous().numpy().tobytes())
    digest.update(repr([list(dataset.item_ids), list(dataset.query_ids)]).encode())
    return digest.hexdigest()


def opened(place: Path, base: Path, folder: Path) -> Done:
    """The content of a data set."""
    return judged(forked(answer(lambda: contents(folder)), place))


def recommended(place: Path, base: Path, folder: Path) -> Done:
    """The recommendations of a run or an estimator by the command."""
    return _with(run(place, "recommend", folder, "-o", "best.csv", "-q", "--overwrite"), place / "best.csv")


def loaded(place: Path, base: Path, folder: Path) -> Done:
    """The recommendations of a loaded estimator."""

    def told() -> str:
        found = Recommender.load(folder).recommend(k=3)
        return json.dumps({name: list(map(str, found[name])) for name in found})

    return judged(forked(answer(told), place))


def compared(place: Path, base: Path, folder: Path) -> Done:
    """The comparison of a run with another one."""
    done = run(place, "compare", folder, base / "run1", "--json")
    return replace(done, out=done.out.replace(str(folder), "COPY"))


def reported(place: Path, base: Path, folder: Path) -> Done:
    """The report of a run."""
    return _with(run(place, "report", folder, "-o", "report.html"), place / "report.html")


def resumed(place: Path, base: Path, folder: Path) -> Done:
    """A stopped run, resumed to its end."""
    done = run(place, "train", "--resume", folder, "-q")
    kept = {name: digest for name, digest in digests(folder).items() if name.startswith(("model.s", "metr", "eval"))}
    return replace(done, out=json.dumps(kept))


def best(place: Path, base: Path, folder: Path) -> Done:
    """The best recipe of a study."""
    return judged(forked(answer(lambda: load_recipe(str(folder / "best.yaml")).model_dump_json()), place))


def tuned(place: Path, base: Path, folder: Path) -> Done:
    """The result of a finished study."""
    return _tune(place, base, folder, 2)


def continued(place: Path, base: Path, folder: Path) -> Done:
    """A study with one more trial."""
    return _tune(place, base, folder, 3)


def _tune(place: Path, base: Path, folder: Path, trials: int) -> Done:
    words: list[object] = [
        "tune",
        "recommendation",
        f"data={base / 'data'}",
        *SHORT,
        "--trials",
        trials,
        "-o",
        folder,
        "--json",
    ]
    done = run(place, *words)
    return replace(done, out=done.out.replace(str(folder), "COPY"))


def _with(done: Done, file: Path) -> Done:
    """The content of an output as the result, without the name of the directory."""
    return done if done.refused else replace(done, out=file.read_text().replace(str(file.parent), "PLACE"))


USES: dict[str, tuple[str, list[Use]]] = {
    "data": ("data", [opened]),
    "features": ("features", [opened]),
    "run": ("run0", [recommended, reported]),
    "featured": ("featured", [recommended, reported]),
    "evaluation": ("run0", [compared, reported]),
    "stopped": ("stopped", [resumed]),
    "saved": ("saved", [recommended, loaded]),
    "study": ("study", [best, tuned, continued]),
}
"""What is damaged: its folder in the material, and the uses of it."""
