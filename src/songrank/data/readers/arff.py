"""Multi-label ARFF files, as Mulan and MEKA publish them."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from songrank.core.errors import DataError, shown
from songrank.core.ids import Ids
from songrank.data.content import Content
from songrank.data.parsers import arff_header
from songrank.data.parsers.arff_header import ArffHeader, Attribute, shown_values
from songrank.data.parsers.arff_rows import ArffRows, Column, plan_columns
from songrank.data.preparation.labelled_queries import Role, choose_files, feature_content, names_one_file
from songrank.data.preparation.row_writer import FeatureWriter, RowWriter
from songrank.data.preparation_options import FeatureRowOptions
from songrank.io.source import Job, Source, find_sources


class ArffOptions(FeatureRowOptions):
    """Options of ARFF files: labels and splits."""

    labels: int | None = Field(None, ge=1, description="Number of labels; by default those of the XML file.")
    label_position: Literal["first", "last"] = Field("last", description="Position of the labels among the attributes.")
    encoding: str = Field("utf-8", description="Encoding of the ARFF files.")


def arff(source: Path, options: ArffOptions, job: Job, scratch: Path) -> Content:
    """Read multi-label ARFF files, dense or sparse.

    Labels are defined by the option ``labels``, by Mulan's XML file in the same directory, or by MEKA's ``-C n`` in the
    relation name. Item ids are label names; query ids are row numbers in the file, from 0. A numeric attribute is one
    feature, a nominal attribute with k values is k − 1 binary features, all 0 for the first value. Missing values (?)
    are read as 0 and counted.
    """
    tables, label_list = _find(source, options)
    labels = RowWriter(scratch, "labels", {"item": np.int32, "label": np.float32})
    features = FeatureWriter(scratch, options.scale)
    rows: dict[Role, int] = {}
    layout: _Layout | None = None
    for role, file in choose_files(tables, options, source).items():
        header, blocks = arff_header.read_header(file, job)
        layout = layout or _lay_out(header, file.name, options, label_list, job)
        layout.check(header, file.name)
        before = labels.rows
        for block in blocks:
            read = ArffRows(layout.columns, file.name)
            read.read(block)
            labels.append(read.label_counts, item=read.item, label=read.relevance)
            features.append(read.feature_counts, index=read.index, value=read.value)
            job.count("missing feature values (read as 0)", read.missing)
        rows[role] = labels.rows - before
    assert layout is not None  # there is at least one file
    columns = {"attributes": layout.attributes}
    return feature_content(rows, labels.finish(), features, layout.item_ids, layout.num_features, options, job, columns)


@dataclass(frozen=True)
class _Layout:
    """The columns of all files, from the attributes of the first file."""

    header: ArffHeader
    file: str
    item_ids: Ids
    columns: list[Column]
    num_features: int

    @property
    def attributes(self) -> list[list[Any]]:
        """Name and values, None if numeric, of each attribute that is no label."""
        pairs = zip(self.header.attributes, self.columns, strict=True)
        return [[one.name, one.values and list(one.values)] for one, column in pairs if not column.is_label]

    def check(self, header: ArffHeader, file: str) -> None:
        here, there = header.attributes, self.header.attributes
        if len(here) != len(there):
            what = f"has {len(here):,} attributes, but {self.file} has {len(there):,}"
            raise DataError(what, "expected files of the same data set", file=file)
        for at, (one, other) in enumerate(zip(here, there, strict=True)):
            if one != other:
                what = f"attribute {at} is {_described(one)}, but in {self.file} it is {_described(other)}"
                raise DataError(what, "expected files of the same data set", file=file)


def _described(attribute: Attribute) -> str:
    return shown(attribute.name) + ("" if attribute.values is None else f" {{{shown_values(attribute.values)}}}")


def _lay_out(header: ArffHeader, file: str, options: ArffOptions, label_list: Source | None, job: Job) -> _Layout:
    if label_list is not None:
        names = arff_header.read_label_list(label_list, job)
        places = arff_header.listed_labels(header, names, file, label_list.name)
    elif options.labels is not None:
        places = arff_header.counted_labels(header, options.labels, options.label_position, file)
    elif (counted := arff_header.meka_labels(header)) is not None:
        places = arff_header.counted_labels(header, *counted, file)
    else:
        fix = "add Mulan's XML file of labels to the directory, or pass labels=N"
        raise DataError("does not define which attributes are labels", fix, file=file)
    names = [header.attributes[place].name for place in places]
    item_ids = Ids.of(names)
    columns, num_features = plan_columns(header, places, item_ids.find(names).tolist(), file)
    return _Layout(header, file, item_ids, columns, num_features)


def _find(path: Path, options: ArffOptions) -> tuple[list[Source], Source | None]:
    """The ARFF files, and the XML file of labels unless overridden by options."""
    found = find_sources(path, ["*.arff", "*.xml"], "ARFF file")
    if names_one_file(path):
        tables, lists = found, _lists_next_to(found[0])
    else:
        lists = [file for file in found if _is_list(file)]
        tables = [file for file in found if file not in lists]
    if not tables:
        raise DataError("contains no ARFF file", "pass the directory or archive with the data", file=str(path))
    tables = [replace(file, encoding=options.encoding) for file in tables]
    if options.labels is not None or not lists:
        return tables, None
    if len(lists) > 1:
        names = ", ".join(file.file_name for file in lists[:3])
        raise DataError(f"has {len(lists)} XML files of labels: {names}", "keep one, or pass labels=N", file=str(path))
    return tables, lists[0]


def _lists_next_to(table: Source) -> list[Source]:
    """XML files in the same directory whose stem is a prefix of the file's name."""
    if table.member is None:
        near = [Source(file) for file in sorted(table.path.parent.glob("*.xml"))]
    else:
        near = [file for file in find_sources(table.path, ["*"], "file") if _is_list(file)]
    return [file for file in near if table.file_name.startswith(Path(file.file_name).stem)]


def _is_list(file: Source) -> bool:
    return file.file_name.lower().endswith(".xml")
