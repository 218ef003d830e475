"""Multi-label ARFF files, as Mulan and MEKA publish them."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

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
    """Which attributes are labels, and rows to splits."""

    labels: int | None = Field(None, ge=1, description="so many attributes are labels; the XML list says if not given")
    label_position: Literal["first", "last"] = Field("last", description="where the attributes are that labels counts")
    encoding: str = Field("utf-8", description="of the ARFF files")


def arff(source: Path, options: ArffOptions, job: Job, scratch: Path) -> Content:
    """Read multi-label ARFF files, dense or sparse.

    The labels are those of the option ``labels``, else of Mulan's XML list beside the files, else of MEKA's ``-C n`` in
    the name of the relation. Item ids are the labels' names; query ids are numbers of rows in their file, from 0.
    Numeric attributes are one feature each, those with k values are k − 1 features that are 0 or 1; the first value has
    none of them. Missing features (?) count as 0 and are counted.
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
            job.count("missing values of features (taken as 0)", read.missing)
        rows[role] = labels.rows - before
    assert layout is not None  # there is at least one file
    return feature_content(rows, labels.finish(), features, layout.item_ids, layout.num_features, options, job)


@dataclass(frozen=True)
class _Layout:
    """What becomes of the attributes of the first file, and so of the others."""

    header: ArffHeader
    file: str
    item_ids: Ids
    columns: list[Column]
    num_features: int

    def check(self, header: ArffHeader, file: str) -> None:
        here, there = header.attributes, self.header.attributes
        if len(here) != len(there):
            what = f"has {len(here):,} attributes, but {self.file} has {len(there):,}"
            raise DataError(what, "expected files of the same data set", file=file)
        for at, (one, other) in enumerate(zip(here, there, strict=True)):
            if one != other:
                what = f"attribute {at} is {_described(one)}, but that of {self.file} is {_described(other)}"
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
        fix = "put Mulan's XML list of labels next to it, or give labels=N"
        raise DataError("does not say which attributes are labels", fix, file=file)
    names = [header.attributes[place].name for place in places]
    item_ids = Ids.of(names)
    columns, num_features = plan_columns(header, places, item_ids.find(names).tolist(), file)
    return _Layout(header, file, item_ids, columns, num_features)


def _find(path: Path, options: ArffOptions) -> tuple[list[Source], Source | None]:
    """The ARFF files, and the list of labels unless the options replace it."""
    found = find_sources(path, ["*.arff", "*.xml"], "ARFF file")
    if names_one_file(path):
        tables, lists = found, _lists_next_to(found[0])
    else:
        lists = [file for file in found if _is_list(file)]
        tables = [file for file in found if file not in lists]
    if not tables:
        raise DataError("holds no ARFF file", "name the folder or archive that holds the data", file=str(path))
    tables = [replace(file, encoding=options.encoding) for file in tables]
    if options.labels is not None or not lists:
        return tables, None
    if len(lists) > 1:
        names = ", ".join(file.file_name for file in lists[:3])
        raise DataError(f"has {len(lists)} lists of labels: {names}", "leave one, or give labels=N", file=str(path))
    return tables, lists[0]


def _lists_next_to(table: Source) -> list[Source]:
    """XML files beside a file whose names its name begins with."""
    if table.member is None:
        near = [Source(file) for file in sorted(table.path.parent.glob("*.xml"))]
    else:
        near = [file for file in find_sources(table.path, ["*"], "file") if _is_list(file)]
    return [file for file in near if table.file_name.startswith(Path(file.file_name).stem)]


def _is_list(file: Source) -> bool:
    return file.file_name.lower().endswith(".xml")
