"""Delimited text files."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from songrank.data import DataError, prepare
from songrank.io.source import Job, Source
from songrank.io.tables.delimited import DelimitedFile
from tests.data.readers.small_logs import _parquet, prepared

CELLS = st.text(st.sampled_from('ab1,;"\n\r é'), max_size=4)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=8), st.sampled_from([",", ";", "\t"]))
def test_what_pythons_csv_writes_is_read_back(tmp_path_factory, rows, separator):
    import csv

    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=separator, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(["a", "b", "c"])
    writer.writerows(rows)
    file = tmp_path_factory.mktemp("csv") / "rows.csv"
    file.write_bytes(stream.getvalue().encode())
    frames = [frame for frame, _ in DelimitedFile(Source(file), separator, Job()).frames(["c", "a"])]
    found = [tuple(cell or "" for cell in row) for frame in frames for row in frame.rows()]
    assert found == [(c.replace("\r\n", "\n"), a.replace("\r\n", "\n")) for a, _, c in rows]


@given(st.binary(max_size=80))
def test_any_bytes_are_a_table_or_a_data_error(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "rows.csv").write_bytes(b"user,item,rating,time\n" + data)
    (folder / "rows.parquet").write_bytes(_parquet()[: len(data)] + data)
    for name in ("rows.csv", "rows.parquet"):
        try:
            prepare("interactions", folder / name, folder / "set", overwrite=True)
        except DataError as error:
            assert "\n" not in str(error)


def test_quoted_line_ends_do_not_shift_line_numbers(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text('user,item,text\n1,2,"two\nlines"\n1,3,"x"\n1,,"y"\n')
    with pytest.raises(DataError, match="line 5: item is missing"):
        prepare("interactions", file, tmp_path / "set")


def test_a_quote_that_does_not_close_is_refused(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text('user,item,title\n1,1,a\n2,2,"b\n3,3,c\n4,4,d\n')
    with pytest.raises(DataError, match=r"log\.csv, line 3: cannot be read .*check for unbalanced quotes"):
        prepared(tmp_path, file)


def test_a_quote_within_a_field_is_a_letter(tmp_path, monkeypatch):
    file = tmp_path / "log.csv"
    rows = "".join(
        f'{user},{item},5" nails\n' if item == 1 else f"{user},{item},x\n" for user in (1, 2) for item in (1, 2, 3)
    )
    file.write_text("user,item,title\n" + rows * 1)
    assert prepared(tmp_path, file).num_pairs == 6
    blocks = list(Source(file).blocks(Job(), block_bytes=30, quotes=True))
    assert len(blocks) > 1
