"""From a named kind of source to a prepared data set: find it, read it, write it, or leave nothing behind."""

import os
import shutil
from pathlib import Path
from typing import Any

from songrank.core.errors import DataError
from songrank.data.content import write_content
from songrank.data.dataset import Dataset, open_dataset
from songrank.data.registry import find_kind
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
    **options: Any,
) -> Dataset:
    """Turn files or tables into a prepared data set, and open it.

    The folder is written whole or not at all. The same source with the same options gives the same bytes.

    Args:
        name: kind of source; ``songrank data list`` shows them.
        source: a file, a zip archive, a folder, or a DataFrame; None for synthetic data.
        directory: folder of the data set.
        preset: named values for the options: ``"paper"`` for the paper's, ``"raw"`` for files as they are.
        overwrite: replace an existing data set.
        progress: called with what is being done, how far it is, and the total (None if not known).
        options: see ``songrank data list NAME``; they override the preset.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp() + "/clicks"
    >>> clicks = {"user": ["a", "a", "a", "b", "b", "b"], "item": [1, 2, 3, 3, 2, 9], "time": [1, 2, 3, 1, 2, 3]}
    >>> dataset = prepare("interactions", clicks, folder)
    >>> dataset.num_queries, dataset.num_items, dataset.num_pairs
    (2, 4, 6)
    >>> [dataset.item_ids[x] for x in dataset["test"].item]
    [3, 9]
    """
    kind = find_kind(name)
    chosen = kind.options(preset, options)
    job = Job(progress)
    if isinstance(source, (str, os.PathLike)):
        if not os.fspath(source):
            raise DataError("source is an empty text", f"{name} needs {kind.wants}")
        if "\0" in os.fspath(source) + os.fspath(directory):
            raise DataError("a path holds a NUL character", "name an existing file")
        source = Path(source)
        _check_apart(source, Path(directory))
    elif source is not None and not kind.reads_tables:
        raise DataError(f"source is a {type(source).__name__}", f"{name} needs {kind.wants}")
    directory = os.path.abspath(directory)
    if (source is None) != kind.without_source:
        what = f"source is {'missing' if source is None else 'given'}"
        raise DataError(what, f"{name} needs {'none' if kind.without_source else kind.wants}")
    own = ("vocabulary.txt",)
    with staged_directory(Path(directory), marker="dataset.json", own=own, overwrite=overwrite) as folder:
        scratch = folder / "scratch"
        scratch.mkdir()
        used = {"preset": preset or kind.default_preset, **chosen.model_dump(mode="json")}
        try:
            content = kind.run(source, chosen, job, scratch)
            write_content(folder, content, name=name, options=used, job=job)
        except DataError as error:  # what is wrong with the whole of the data names the source
            if error.file is not None or not isinstance(source, Path):
                raise
            raise DataError(error.what, error.fix, file=str(source)) from None
        del content  # lets go of what is mapped there, which Windows would not remove
        shutil.rmtree(scratch)
    return open_dataset(directory)


def _check_apart(source: Path, directory: Path) -> None:
    """Raise if replacing the folder would take the source with it."""
    inside = Path(os.path.realpath(source))
    if Path(os.path.realpath(directory)) in (inside, *inside.parents) and directory.exists():
        raise DataError("holds the source itself", "choose another place for the data set", file=str(directory))
