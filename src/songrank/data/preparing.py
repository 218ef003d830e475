"""Prepare a data set from a source of a named kind; a failed preparation leaves no files."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from songrank.core.checks import check_number
from songrank.core.errors import DataError
from songrank.core.forks import check_not_forked
from songrank.core.limits import RATIO
from songrank.core.memory import LEAST_MEMORY, read_bytes
from songrank.data.content import write_content, write_description
from songrank.data.dataset import Dataset, open_dataset
from songrank.data.registry import Kind, all_kinds, find_kind
from songrank.io.source import Job, Progress
from songrank.io.staging import staged_directory


def prepare(
    name: str,
    source: Any,
    directory: str | os.PathLike[str],
    *,
    preset: str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    note: Callable[[str], object] | None = None,
    memory_limit: int | str | None = None,
    max_ratio: float = RATIO,
    **options: Any,
) -> Dataset:
    """Prepare a data set from files or tables, and open it.

    The directory is written atomically. The same source with the same options gives the same bytes.

    Args:
        name: kind of data set; ``songrank data list`` lists all.
        source: a file, a zip archive, a directory or a DataFrame; None for synthetic data, or if options name files.
        directory: output directory.
        preset: named option values: ``"paper"`` as in the paper, ``"raw"`` for unmodified files.
        overwrite: replace an existing data set.
        progress: called with the step, its progress and the total (None if unknown).
        note: called with a line of text about a choice that was made automatically.
        memory_limit: peak memory in bytes or as ``"4GB"``, at least 1 GiB: ``interactions`` are sorted on disk, which
            needs DuckDB, ``pip install 'songrank[large]'``. The result has the same bytes. By default, on disk if
            memory is short.
        max_ratio: maximum size of a compressed source relative to its compressed size, against decompression bombs.
        options: options of the kind, which override the preset; see ``songrank data list NAME``.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp() + "/clicks"
    >>> clicks = {"user": ["a", "a", "a", "b", "b", "b"], "item": [1, 2, 3, 3, 2, 9], "time": [1, 2, 3, 1, 2, 3]}
    >>> dataset = prepare("interactions", clicks, folder)
    >>> dataset.num_queries, dataset.num_items, dataset.num_pairs
    (2, 4, 6)
    >>> [dataset.item_ids[x] for x in dataset["test"].item]
    [3, 9]
    """
    check_not_forked()
    kind = find_kind(name)
    chosen = kind.options(preset, options)
    job = Job(progress, note, _checked_limit(memory_limit, kind), check_number("max_ratio", max_ratio, low=1.0))
    if isinstance(source, (str, os.PathLike)):
        if not os.fspath(source):
            raise DataError("source is an empty string", f"{name} needs {kind.wants}")
        if "\0" in os.fspath(source) + os.fspath(directory):
            raise DataError("a path contains a NUL character", "pass an existing file")
        source = Path(source)
        _check_apart(source, Path(directory))
    elif source is not None and not kind.reads_tables:
        raise DataError(f"source is a {type(source).__name__}", f"{name} needs {kind.wants}")
    directory = os.path.abspath(directory)
    files = chosen.source_files
    for file in (*files, *chosen.table_files):
        if "\0" in file:
            raise DataError("a path contains a NUL character", "pass an existing file")
        _check_apart(Path(file), Path(directory))
    if (source is None) != (kind.without_source or bool(files)):
        if files:
            raise DataError(f"the source and the option train, {files[0]}, are given", "pass one of the two")
        what = f"source is {'missing' if source is None else 'given'}"
        raise DataError(what, f"{name} needs {'no source' if kind.without_source else kind.wants}")
    own = ("vocabulary.txt",)
    with staged_directory(Path(directory), marker="dataset.json", own=own, overwrite=overwrite) as folder:
        scratch = folder / "scratch"
        scratch.mkdir()
        used = {"preset": preset or kind.default_preset, **chosen.model_dump(mode="json")}
        try:
            content = kind.run(source, chosen, job, scratch)
            info = write_content(folder, content, name=name, options=used, job=job)
        except DataError as error:  # errors about the whole data name the source
            whole = str(source) if isinstance(source, Path) else files[0] if files else None
            if error.file is not None or whole is None:
                raise
            raise DataError(error.what, error.fix, file=whole) from None
        del content  # unmaps files in scratch, which Windows could not remove
        shutil.rmtree(scratch)
        write_description(folder, info)
    return open_dataset(directory, verify=False)  # hashed while it was written


def _checked_limit(memory_limit: int | str | None, kind: Kind) -> int | None:
    if memory_limit is None:
        return None
    if not kind.sorts_on_disk:
        able = " and ".join(name for name, known in all_kinds().items() if known.sorts_on_disk)
        raise DataError(f"memory_limit is not supported for {kind.name}", f"omit it; it is for {able}")
    limit = read_bytes("memory_limit", memory_limit)
    if limit < LEAST_MEMORY:
        raise DataError(f"memory_limit is {limit >> 20:,} MiB", f"expected at least {LEAST_MEMORY >> 20:,} MiB")
    return limit


def _check_apart(source: Path, directory: Path) -> None:
    """Raise if replacing the directory would delete the source."""
    inside = Path(os.path.realpath(source))
    if Path(os.path.realpath(directory)) in (inside, *inside.parents) and directory.exists():
        raise DataError("contains the source", "choose another output directory", file=str(directory))
