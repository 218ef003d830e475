"""Bags of words with labels, in the format of the Extreme Classification Repository."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.data.content import Content
from songrank.data.parsers.bag_of_words import Bags, Header, parse_bags, parse_header
from songrank.data.preparation.labelled_queries import MAX_LABELS, Role, choose_files, feature_content, names_one_file
from songrank.data.preparation.row_writer import FeatureWriter, RowWriter
from songrank.data.preparation_options import FeatureRowOptions, QuerySplitOptions
from songrank.data.split_names import inner_path, split_of_path
from songrank.io.source import Block, Job, Source, find_sources

_EXPECTED = "text file in the Extreme Classification format"
_SOMETHING_ELSE = re.compile(r"filter_labels|(labels|texts|split)\.txt$|readme|licen[cs]e", re.IGNORECASE)
_ROWS_OF_SPLITS = re.compile(r".*(tr|trn|train|tst|test)_?split\.txt", re.IGNORECASE)
_HEADER = re.compile(rb"(\xef\xbb\xbf)?\s*[0-9]+\s+[0-9]+\s+[0-9]+\s*")


def xmc(source: Path, options: FeatureRowOptions, job: Job, scratch: Path) -> Content:
    """Read ``rows features labels``, then one row per line: ``label,label index:value index:value``.

    Labels and features are numbered from 0 up to the counts of the first line. Rows without labels are kept. Query ids
    are row numbers in the file, from 0; in a random split, row numbers of the test file continue those of the train
    file. Lists of training and test rows (``*_trSplit.txt``, ``*_tstSplit.txt``) are not supported and raise an error
    unless ``split=random``.
    """
    labels = RowWriter(scratch, "labels", {"item": np.int32})
    features = FeatureWriter(scratch, options.scale)
    rows: dict[Role, int] = {}
    headers: dict[str, Header] = {}
    for role, file in _files(source, options).items():
        before = labels.rows
        headers[file.name], blocks = read_bags(file, job)
        for bags in blocks:
            labels.append(bags.label_counts, item=bags.item)
            features.append(bags.feature_counts, index=bags.index, value=bags.value)
        rows[role] = labels.rows - before
    header = _agreed(headers)
    return feature_content(rows, labels.finish(), features, Ids.count(header.labels), header.features, options, job)


def _files(path: Path, options: QuerySplitOptions) -> dict[Role, Source]:
    """The file of each role; other text files are ignored."""
    found = find_sources(path, ["*.txt"], _EXPECTED)
    data = [source for source in found if not _SOMETHING_ELSE.search(source.file_name)] if len(found) > 1 else found
    named = [source for source in data if split_of_path(inner_path(source, path), (".txt",)) is not None]
    if named:
        data = [source for source in data if source in named or _begins_like_data(source)]
    chosen = choose_files(data or found, options, path)
    if "all" in chosen and options.split is None:
        _check_no_lists_of_rows(found, path)
    return chosen


def _begins_like_data(source: Source) -> bool:
    with source.open() as stream:
        return _HEADER.fullmatch(stream.readline(100)) is not None


def _check_no_lists_of_rows(found: list[Source], path: Path) -> None:
    """Raise if a file lists the rows of splits, which are not supported."""
    plain_file = names_one_file(path) and path.is_file()
    near = [Source(file) for file in sorted(path.parent.glob("*.txt"))] if plain_file else found
    for source in near:
        if _ROWS_OF_SPLITS.fullmatch(source.file_name):
            what = f"row splits in {source.file_name} are not supported"
            raise DataError(what, "write train and test rows to two files, or pass split=random", file=str(path))


def read_bags(file: Source, job: Job, *, any_labels: bool = False) -> tuple[Header, Iterator[Bags]]:
    """The header of a file, and its rows in blocks; with ``any_labels`` labels are not validated."""
    blocks = file.blocks(job)
    line, _, data = next(blocks).data.partition(b"\n")
    header = parse_header(line, file.name)

    def rows() -> Iterator[Bags]:
        done, most = 0, MAX_LABELS if any_labels else header.labels
        for block in chain([Block(data, 2, file.name)], blocks):
            block = _first_rows(block, header.rows - done, header.rows)
            if block.data:
                yield (bags := parse_bags(block, replace(header, labels=most)))
                done += bags.label_counts.shape[0]
        if done < header.rows:
            what = f"the header gives {header.rows:,} rows, but there are {done:,}"
            raise DataError(what, "download the file again, or correct its first line", file=file.name)

    return header, rows()


def _first_rows(block: Block, most: int, said: int) -> Block:
    """Blank lines are rows without labels and features; after the last row they are ignored."""
    if block.data.count(b"\n") <= most:
        return block
    lines = block.data.split(b"\n")
    for at, line in enumerate(lines[most:], block.line + most):
        if line.strip():
            what = f"the header gives {said:,} rows, but this is row {at - 1:,}"
            block.fail(what, "download the file again, or correct its first line", at)
    return Block(b"".join(line + b"\n" for line in lines[:most]), block.line, block.file)


def _agreed(headers: dict[str, Header]) -> Header:
    (first, header), *others = headers.items()
    for name, other in others:
        for what in ("features", "labels"):
            here, there = getattr(other, what), getattr(header, what)
            if here != there:
                found = f"the header gives {here:,} {what}, but that of {first} gives {there:,}"
                raise DataError(found, "expected files of the same data set", file=name, line=1)
    return header
