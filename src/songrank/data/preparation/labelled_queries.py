"""Common steps of readers of labelling tasks: texts or instances are queries, labels are catalogue items."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from songrank.core.columns import Array
from songrank.core.csr import CSR
from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.data.content import Arrays, Content
from songrank.data.dataset import SPLITS
from songrank.data.preparation.row_writer import FeatureWriter, csr_arrays, stored_rows
from songrank.data.preparation.splits import divide
from songrank.data.preparation.standardisation import Standardisation
from songrank.data.preparation_options import FeatureRowOptions, QuerySplitOptions
from songrank.data.split_names import name_splits
from songrank.io.source import Job, Source

MAX_LABELS = 1 << 27  # larger numbers are errors, and a table of that size would exhaust memory

Role = Literal["train", "validation", "test", "all"]
ROLES: tuple[Role, ...] = ("train", "validation", "test", "all")  # in the order in which their files are read


def by_role(found: Sequence[Source], path: Path) -> dict[Role, list[Source]]:
    """Files of one kind by role, from file or directory names; raises if only some of them name a split."""
    files = [(source, split or "all") for source, split in name_splits(found, path, ())]
    return {role: [source for source, other in files if other == role] for role in ROLES}


def choose_files(found: Sequence[Source], options: QuerySplitOptions, path: Path) -> dict[Role, Source]:
    """The file of each role, or one file with all rows; a file given by the user has all rows, whatever its name."""
    if names_one_file(path):
        files: dict[Role, Source] = {"all": found[0]}
    else:
        files = {role: _only(sources, role, path) for role, sources in by_role(found, path).items() if sources}
    check_split(options, files, path)
    return files


def names_one_file(path: Path) -> bool:
    """Whether the user gave a file, possibly in an archive, rather than a directory or an archive."""
    return path.suffix.lower() != ".zip" and not path.is_dir()


def _only(sources: Sequence[Source], role: Role, path: Path) -> Source:
    if len(sources) > 1:
        names = ", ".join(source.file_name for source in sources[:3])
        kind = {"train": "training", "all": "data"}.get(role, role)
        what = f"has {len(sources)} candidates for the {kind} file: {names}"
        raise DataError(what, "pass a directory or archive with one file per split, or a file", file=str(path))
    return sources[0]


def check_split(options: QuerySplitOptions, roles: Mapping[Role, Any], path: Path) -> None:
    """Raise, before anything is read, if the files and the options give no training rows or no test rows."""
    if not is_given(options, roles):
        if options.random_validation + options.test >= 1:
            what = f"validation {options.random_validation:g} and test {options.test:g} leave nothing for training"
            raise DataError(what, "expected fractions that sum to less than 1")
        return
    if missing := [role for role in ("train", "test") if role not in roles]:
        there = ", ".join(roles) if "all" not in roles else "one file"
        what = f"has no {' and no '.join(missing)} file (found: {there})"
        raise DataError(what, "add the missing files, or set split=random", file=str(path))
    given = {"test": "test" in options.model_fields_set, "validation": options.validation and "validation" in roles}
    for part in (name for name, twice in given.items() if twice):
        what = f"{part} is {getattr(options, part):g}, but the source has a {part} file"
        raise DataError(what, f"omit {part}, or set split=random", file=str(path))


def is_given(options: QuerySplitOptions, roles: Mapping[Role, Any]) -> bool:
    """Whether the files determine the splits."""
    return options.split == "given" or (options.split is None and "all" not in roles)


@dataclass(frozen=True)
class Split:
    """Rows of the table, ascending, and the table row of the first row of their file."""

    rows: Array
    first: int = 0


def split_rows(rows: Mapping[Role, int], options: QuerySplitOptions) -> dict[str, Split]:
    """Rows of the table for each split; ``rows`` has the number of rows per file, in table order."""
    if not is_given(options, rows):
        return _divide(sum(rows.values()), options.random_validation, options.test, options.seed)
    splits: dict[str, Split] = {}
    first = 0
    for role, count in rows.items():
        if not count:
            raise DataError(f"the {role} file has no rows", "expected at least one, or set split=random")
        splits[role] = Split(np.arange(first, first + count), first)
        first += count
    if options.validation:
        splits |= _divide(rows["train"], options.validation, 0.0, options.seed)
    return {name: splits[name] for name in SPLITS if name in splits}


def _divide(rows: int, validation: float, test: float, seed: int) -> dict[str, Split]:
    codes = divide(rows, "row", "rows", validation, test, seed)
    splits = {name: Split(np.flatnonzero(codes == code)) for code, name in enumerate(SPLITS)}
    return {name: split for name, split in splits.items() if split.rows.size}


def labelling_content(
    splits: Mapping[str, Split],
    labels: CSR,
    describe: Callable[[Array], Arrays],
    *,
    item_ids: Ids,
    ids: Array | Sequence[str] | None = None,
    extra: Mapping[str, Any],
) -> Content:
    """Combine the results of :func:`split_rows` and :func:`label_table` with the catalogue.

    ``describe`` returns feature or token arrays of rows. ``ids`` are those of all rows in the source; by default query
    ids are row numbers within the file, from 0. ``extra`` is added to ``dataset.json``.
    """
    if not labels.lengths[torch.from_numpy(splits["train"].rows)].any():
        raise DataError("no training label is above 0", "check the labels")
    arrays: dict[str, Arrays] = {}
    query_ids: dict[str, Ids] = {}
    for name, split in splits.items():
        rows = split.rows
        if ids is None:
            query_ids[name] = Ids.of(rows - split.first)
        elif isinstance(ids, np.ndarray):
            rows = rows[np.argsort(ids[rows])]
            query_ids[name] = Ids.of(ids[rows])
        else:
            rows = np.array(sorted(rows.tolist(), key=lambda row: ids[row].encode()), np.int64)
            query_ids[name] = Ids.from_texts([ids[row] for row in rows])
        arrays[name] = csr_arrays(labels.take(rows)) | describe(rows)
    return Content("labelling", arrays, query_ids, item_ids, dict(extra))


def feature_content(
    rows: Mapping[Role, int],
    labels: CSR,
    features: FeatureWriter,
    item_ids: Ids,
    num_features: int,
    options: FeatureRowOptions,
    job: Job,
    described_columns: Mapping[str, Any] | None = None,
) -> Content:
    """A labelling task on feature rows; ``rows`` has the number of rows per file.

    ``described_columns`` describes the columns of the source: ``names`` of a table, or ``attributes`` of ARFF files.
    """
    table = features.finish()
    described: dict[str, Any] = {"count": num_features, "kind": "sparse", "scale": options.scale}
    splits = split_rows(rows, options)
    fitted = None
    if options.scale == "standardise":
        fitted = Standardisation.fit(table, splits["train"].rows, num_features)
        described |= fitted.description()

    def describe(chosen: Array) -> Arrays:
        if fitted is not None:
            return csr_arrays(fitted.rows(table, chosen), "features.")
        return stored_rows(table, chosen, "features")

    return labelling_content(
        splits,
        label_table(labels, job),
        describe,
        item_ids=item_ids,
        extra={"features": {**described, **(described_columns or {})}},
    )


def label_table(rows: CSR, job: Job) -> CSR:
    """Distinct labels of each row in ascending order, with the largest relevance; dropped labels are counted."""
    row, item = rows.row_of_entries().numpy(), np.asarray(rows["item"], np.int32)
    relevance = np.asarray(rows.columns.get("label", np.ones(item.shape[0])), np.float32)
    order = np.lexsort((-relevance, item, row))
    row, item, relevance = row[order], item[order], relevance[order]
    repeated = np.zeros(row.shape[0], bool)
    repeated[1:] = (row[1:] == row[:-1]) & (item[1:] == item[:-1])
    nothing = ~repeated & (relevance == 0)
    job.count("labels repeated in a row", int(np.count_nonzero(repeated)))
    job.count("labels of relevance 0", int(np.count_nonzero(nothing)))
    kept = ~(repeated | nothing)
    return CSR.from_rows(row[kept], len(rows), item=item[kept], label=relevance[kept])
