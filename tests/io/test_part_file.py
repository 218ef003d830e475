"""Parts of a download that can be resumed."""

import fcntl

import pytest

from songrank.data.registry import Download
from songrank.io.part_file import PartFile
from tests.data.http_files import serve
from tests.io.downloads import CONTENT, MD5, OTHER, refused


@pytest.mark.parametrize("if_range", [True, False])
def test_parts_of_two_versions_are_never_joined(fetch, if_range):
    def change(files):
        files.content, files.etag = OTHER, '"two"'

    with serve(CONTENT, cuts=[200_000], if_range=if_range, after_request=change) as files:
        assert fetch(files.url).read_bytes() == OTHER
    assert files.asked_ranges[1] == "bytes=200000-"


def test_a_date_names_a_version_where_the_etag_is_weak(fetch):
    date = "Fri, 01 Mar 2024 10:00:00 GMT"
    with serve(CONTENT, etag='W/"one"', modified=date, cuts=[200_000]) as files:
        assert fetch(files.url).read_bytes() == CONTENT
    assert files.requests[1]["If-Range"] == date


def test_without_a_name_for_the_version_it_starts_over(fetch):
    with serve(CONTENT, etag=None, cuts=[200_000]) as files:
        assert fetch(files.url).read_bytes() == CONTENT
    assert files.asked_ranges == [None, None]


def test_a_part_whose_notes_are_lost_or_damaged_is_not_trusted(tmp_path, fetch):
    for notes in (None, b"\xff{", b"[]", b'{"version": 3}'):
        part = PartFile(tmp_path / "files" / "ratings.zip")
        part.target.parent.mkdir(exist_ok=True)
        part.path.write_bytes(OTHER[:5000])
        if notes is not None:
            part._notes.write_bytes(notes)
        with serve(CONTENT) as files:
            assert fetch(files.url).read_bytes() == CONTENT
        part.target.unlink()


def test_a_part_that_is_whole_is_only_checked(tmp_path, fetch):
    part = PartFile(tmp_path / "files" / "ratings.zip")
    part.target.parent.mkdir()
    part.path.write_bytes(CONTENT)
    part.begin('"one"')
    with serve(CONTENT) as files:
        assert fetch(Download(files.url, md5=MD5)).read_bytes() == CONTENT
    assert files.asked_ranges == [f"bytes={len(CONTENT)}-"]


def test_a_part_that_is_longer_than_the_file_is_thrown_away(tmp_path, fetch):
    part = PartFile(tmp_path / "files" / "ratings.zip")
    part.target.parent.mkdir()
    part.path.write_bytes(CONTENT + b"more")
    part.begin('"one"')
    with serve(CONTENT) as files:
        assert fetch(files.url).read_bytes() == CONTENT
    assert len(files.requests) == 2


def test_two_processes_do_not_fetch_into_one_part(tmp_path, fetch):
    part = PartFile(tmp_path / "files" / "ratings.zip")
    with serve(CONTENT) as files, part.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write(b"theirs")
        held.flush()
        assert "is being fetched by another process; wait until that is done" in refused(fetch, files.url)
        assert part.path.read_bytes() == b"theirs"
