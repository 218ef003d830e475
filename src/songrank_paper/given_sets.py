"""Where the data sets of an experiment come from: what a user gave, raw or prepared, and synthetic data for the rest.

What a user gives by name is taken, prepared first where it is not a prepared data set yet. For a task of which nothing
is given, synthetic data in the shape of the paper's own sets are made. The same files and options give the same bytes,
so whatever is made of a set can be kept by its fingerprint.
"""

import difflib
import hashlib
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from songrank.core.errors import DataError, UserError, shown
from songrank.data import CatalogueSplit, Dataset, open_dataset, prepare
from songrank.data.registry import KINDS
from songrank.io.files import write_whole
from songrank.io.json_files import read_json
from songrank_paper.data_sets import SETS, PaperSet


class DataSets(Mapping[str, Path]):
    """Folders of prepared data sets by name, each prepared when it is first asked for.

    There are those that were given, and for each task of which none was given synthetic ones in place of the paper's
    (of the first of them in a quick run).

    Args:
        given: what the user gave, by name: prepared folders or raw files.
        output: where sets that have to be prepared are kept.
        quick: synthetic sets are small.
        report: told what is being prepared.

    >>> list(DataSets({"mq2008": Path("mq2008.zip")}, Path("paper"), quick=True))
    ['movielens-20m', 'mq2008', 'eurlex-4k']
    """

    def __init__(
        self,
        given: Mapping[str, Path],
        output: Path,
        *,
        quick: bool = False,
        report: Callable[[str], None] = lambda message: None,
    ) -> None:
        self.given, self.output, self.quick, self.report = given, output, quick, report
        self.used: set[str] = set()
        """Names of the sets that were asked for since this was last emptied."""
        self._found: dict[str, Path] = {}
        self._names = [name for name, known in SETS.items() if name in given or self._fills(known)]

    def _fills(self, known: PaperSet) -> bool:
        """Whether a synthetic set is used for lack of any other."""
        if known.stands_for or known.shape is None or any(SETS[name].task == known.task for name in self.given):
            return False
        first = next(name for name, other in SETS.items() if other.task == known.task)
        return not self.quick or known.name == first

    def __getitem__(self, name: str) -> Path:
        """The folder of a set; it is prepared now if it has not been."""
        if name not in self._names:
            raise KeyError(name)
        if name not in self._found:
            self._found[name] = find_set(name, self.given, self.output, quick=self.quick, report=self.report)
        self.used.add(name)
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def read_given(words: Sequence[str]) -> dict[str, Path]:
    """What ``--data NAME=PATH`` says, with every name and path checked.

    >>> read_given(["movielens=ml-1m.zip"])
    Traceback (most recent call last):
    songrank.core.errors.UserError: --data: 'movielens' is no data set of the paper; did you mean movielens-1m?
    """
    given: dict[str, Path] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not equals or not path:
            raise UserError(f"--data is {shown(word)}; expected NAME=PATH, such as movielens-1m=ml-1m.zip")
        if name not in SETS:
            near = difflib.get_close_matches(name, SETS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(SETS)}"
            raise UserError(f"--data: {shown(name)} is no data set of the paper; {hint}")
        if name in given:
            raise UserError(f"--data: {name} stands twice; say it once")
        _check_there(Path(path), name)
        given[name] = Path(path)
    return given


def _check_there(path: Path, name: str) -> None:
    """Raise if there is nothing at a path, which may lead into an archive."""
    try:
        there = path.is_dir() or any(part.is_file() for part in (path, *path.parents))
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be opened ({error})", "check the path", file=str(path)[:200]) from None
    if not there:
        raise DataError("does not exist", f"expected {KINDS[SETS[name].kind].wants}, for {name}", file=str(path))


def find_set(
    name: str,
    given: Mapping[str, Path],
    output: Path,
    *,
    quick: bool = False,
    report: Callable[[str], None] = lambda message: None,
) -> Path:
    """The folder of a prepared set: what was given, prepared into ``output/data`` if it is raw; synthetic data else."""
    known = SETS[name]
    if name not in given:
        if known.shape is None:
            raise UserError(f"there is no synthetic {name}; give it with --data {name}=PATH")
        options = {**known.shape, **(known.small if quick else {})}
        place = output / "data" / f"{name}-synthetic{'-small' if quick else ''}"
        return _prepared(place, "synthetic", None, options, report)
    path = given[name]
    if not (path / "dataset.json").exists():
        path = _prepared(output / "data" / name, known.kind, _within(path, known.file), known.options, report)
    _check_kind(open_dataset(path), known, path)
    return path


def _check_kind(dataset: Dataset, known: PaperSet, path: Path) -> None:
    """Raise if a prepared set is not what its name says; synthetic data of the task are, and are shown as such."""
    if dataset.task != known.task:
        fix = f"expected one of {known.task}, as {known.name} is"
        raise DataError(f"is a data set of {dataset.task}", fix, file=str(path))
    if dataset.name not in (known.kind, "synthetic"):
        fix = f"expected {known.kind} for {known.name}; give it under its own name"
        raise DataError(f"was prepared as {dataset.name}", fix, file=str(path))
    train = dataset["train"]
    text = isinstance(train, CatalogueSplit) and train.tokens is not None
    if known.task == "labelling" and text != (known.kind == "xmc-text"):
        has, wants = ("texts", "bags of words") if text else ("bags of words", "texts")
        raise DataError(f"holds {has}", f"expected {wants}, as {known.name} has", file=str(path))


def _within(path: Path, file: str) -> Path:
    """The file of this name in a folder or an archive that holds it; else the path as it is."""
    if file and path.is_dir() and (path / file).exists():
        return path / file
    if file and path.is_file() and zipfile.is_zipfile(path):
        try:
            with zipfile.ZipFile(path) as archive:
                members = [member for member in archive.namelist() if member.rpartition("/")[2] == file]
        except (zipfile.BadZipFile, OSError, ValueError) as error:
            raise DataError(f"is truncated or damaged ({error})", "fetch or copy it again", file=str(path)) from None
        return path / members[0] if members else path
    return path


def _prepared(
    place: Path, kind: str, source: Path | None, options: Mapping[str, Any], report: Callable[[str], None]
) -> Path:
    """A folder prepared from a source, made again only where source or options are others than last time."""
    stamp = {"kind": kind, "options": dict(options), "source": None if source is None else _stamp(source)}
    note = place.parent / f"{place.name}.json"
    known = read_json(note, "delete it, and the folder beside it") if note.exists() else {}
    if (place / "dataset.json").exists() and known == stamp:
        return place
    for there in (note, place):
        if there.exists() and "kind" not in known:
            raise DataError(
                "exists and was not made by `songrank paper`", "choose another folder with -o", file=str(there)
            )
    report(f"preparing {place.name}")
    write_whole(note, json.dumps({"kind": kind}) + "\n")  # ours from now on, however this ends
    prepare(kind, source, place, overwrite=True, **options)
    write_whole(note, json.dumps(stamp, indent=2) + "\n")
    return place


def _stamp(source: Path) -> str:
    """What tells one state of a source from another without reading it: names, sizes and times."""
    file = next(part for part in (source, *source.parents) if part.exists())
    files = sorted(file.rglob("*")) if file.is_dir() else [file]
    stats = [(str(one.relative_to(file)), one.stat().st_size, one.stat().st_mtime_ns) for one in files if one.is_file()]
    return hashlib.sha256(json.dumps([str(source.absolute()), stats]).encode()).hexdigest()
