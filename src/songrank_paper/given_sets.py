"""Data sets of the experiments: those of ``--data``, raw or prepared, and synthetic data for other tasks.

Raw data sets are prepared. For a task without a data set, synthetic data with the shape of the paper's sets are
generated. The same files and options give the same bytes, so results can be stored by the fingerprint of a set.
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
    """Directories of prepared data sets by name; each set is prepared on first access.

    It contains the given sets and, for each task without one, synthetic sets instead of those of the paper (instead of
    the first of them in a quick run).

    Args:
        given: given sets by name: prepared directories or raw files.
        output: directory for prepared sets.
        quick: whether synthetic sets are small.
        report: called with a message when a set is prepared.

    >>> list(DataSets({"mq2008": Path("mq2008.zip")}, Path("paper"), quick=True))
    ['movielens-20m', 'mq2008', 'eurlex-4k', 'ir-health']
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
        """Names of the sets that were accessed since this was last cleared."""
        self._found: dict[str, Path] = {}
        self._names = [name for name, known in SETS.items() if name in given or self._fills(known)]

    def _fills(self, known: PaperSet) -> bool:
        """Whether a synthetic set is used, because none was given for its task."""
        if known.stands_for or known.shape is None or any(SETS[name].group == known.group for name in self.given):
            return False
        first = next(name for name, other in SETS.items() if other.group == known.group)
        return not self.quick or known.name == first

    def __getitem__(self, name: str) -> Path:
        """The directory of a set, which is prepared if necessary."""
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
    """Read and check the values of ``--data NAME=PATH``.

    >>> read_given(["movielens=ml-1m.zip"])
    Traceback (most recent call last):
    songrank.core.errors.UserError: --data: unknown data set 'movielens'; did you mean movielens-1m?
    """
    given: dict[str, Path] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not equals or not path:
            raise UserError(f"--data is {shown(word)}; expected NAME=PATH, for example movielens-1m=ml-1m.zip")
        if name not in SETS:
            near = difflib.get_close_matches(name, SETS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(SETS)}"
            raise UserError(f"--data: unknown data set {shown(name)}; {hint}")
        if name in given:
            raise UserError(f"--data: {name} is given twice; pass it once")
        _check_there(Path(path), name)
        given[name] = Path(path)
    return given


def _check_there(path: Path, name: str) -> None:
    """Raise if a path, which may be inside an archive, does not exist."""
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
    """The directory of a prepared set: the given one, prepared into ``output/data`` if it is raw, or synthetic data."""
    known = SETS[name]
    if name not in given:
        if known.shape is None:
            raise UserError(f"there is no synthetic form of {name}; pass --data {name}=PATH")
        options = {**known.shape, **(known.small if quick else {})}
        place = output / "data" / f"{name}-synthetic{'-small' if quick else ''}"
        return _prepared(place, "synthetic", None, options, report)
    path = given[name]
    if not (path / "dataset.json").exists():
        path = _prepared(output / "data" / name, known.kind, _within(path, known.file), known.options, report)
    _check_kind(open_dataset(path), known, path)
    return path


def _check_kind(dataset: Dataset, known: PaperSet, path: Path) -> None:
    """Raise if a prepared set does not match its name; synthetic data of the task are accepted and marked."""
    if dataset.task != known.task:
        fix = f"expected {known.task} data for {known.name}"
        raise DataError(f"is a {dataset.task} data set", fix, file=str(path))
    if dataset.name not in (known.kind, "synthetic"):
        fix = f"expected {known.kind} for {known.name}; pass it under its own name"
        raise DataError(f"was prepared as {dataset.name}", fix, file=str(path))
    train = dataset["train"]
    text = isinstance(train, CatalogueSplit) and train.tokens is not None
    if known.task == "labelling" and text != (known.kind == "xmc-text"):
        has, wants = ("texts", "bags of words") if text else ("bags of words", "texts")
        raise DataError(f"contains {has}", f"expected {wants} for {known.name}", file=str(path))


def _within(path: Path, file: str) -> Path:
    """The file of this name in a directory or archive that contains it, or the unchanged path."""
    if file and path.is_dir() and (path / file).exists():
        return path / file
    if file and path.is_file() and zipfile.is_zipfile(path):
        try:
            with zipfile.ZipFile(path) as archive:
                members = [member for member in archive.namelist() if member.rpartition("/")[2] == file]
        except (zipfile.BadZipFile, OSError, ValueError) as error:
            raise DataError(f"is truncated or damaged ({error})", "download it again", file=str(path)) from None
        return path / members[0] if members else path
    return path


def _prepared(
    place: Path, kind: str, source: Path | None, options: Mapping[str, Any], report: Callable[[str], None]
) -> Path:
    """Prepare a directory from a source, unless source and options are unchanged."""
    stamp = {"kind": kind, "options": dict(options), "source": None if source is None else _stamp(source)}
    note = place.parent / f"{place.name}.json"
    known = read_json(note, "delete it and the directory of the same name") if note.exists() else {}
    if (place / "dataset.json").exists() and known == stamp:
        return place
    for there in (note, place):
        if there.exists() and "kind" not in known:
            raise DataError(
                "already exists and was not made by `songrank paper`", "choose another with -o", file=str(there)
            )
    report(f"preparing {place.name}")
    write_whole(note, json.dumps({"kind": kind}) + "\n")  # marks the directory as ours, even if preparation fails
    prepare(kind, source, place, overwrite=True, **options)
    write_whole(note, json.dumps(stamp, indent=2) + "\n")
    return place


def _stamp(source: Path) -> str:
    """A fingerprint of a source without reading it: names, sizes and times."""
    file = next(part for part in (source, *source.parents) if part.exists())
    files = sorted(file.rglob("*")) if file.is_dir() else [file]
    stats = [(str(one.relative_to(file)), one.stat().st_size, one.stat().st_mtime_ns) for one in files if one.is_file()]
    return hashlib.sha256(json.dumps([str(source.absolute()), stats]).encode()).hexdigest()
