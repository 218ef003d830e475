"""Downloads against a server on this machine: broken off, resumed, changed midway, refused, damaged."""

import errno
import hashlib
import os

import pytest

from songrank.data import DataError
from songrank.data.download import download
from songrank.data.registry import Download, Kind
from songrank.io.transfer import PartFile
from tests.data.http_files import serve
from tests.io.downloads import CONTENT, MD5, OTHER, SHA256, left, refused


def test_a_file_arrives_whole_under_its_own_name(tmp_path, fetch):
    with serve(CONTENT) as files:
        file = fetch(Download(files.url, md5=MD5, sha256=SHA256.upper()), size=len(CONTENT))
    assert file == tmp_path / "files" / "ratings.zip"
    assert file.read_bytes() == CONTENT
    assert left(tmp_path) == ["ratings.zip"]


def test_an_address_alone_will_do_and_so_will_a_recipe(tmp_path, fetch):
    with serve(CONTENT) as files:
        assert fetch(files.url).read_bytes() == CONTENT
        kind = Kind("x", "search", "", "", "", "", download=Download(files.url, md5=MD5))
        assert download(kind, tmp_path / "other").read_bytes() == CONTENT


def test_progress_is_told_byte_by_byte(fetch):
    told = []
    with serve(CONTENT, cuts=[300_000]) as files:
        fetch(Download(files.url, md5=MD5), progress=lambda *step: told.append(step))
    fetched = [done for what, done, total in told if what == "downloading ratings.zip" and total == len(CONTENT)]
    assert fetched == sorted(fetched)
    assert fetched[-1] == len(CONTENT)
    assert told[-1] == ("verifying ratings.zip", len(CONTENT), len(CONTENT))


def test_a_file_that_is_there_is_not_fetched_again(fetch):
    with serve(CONTENT) as files:
        first = fetch(Download(files.url, md5=MD5))
        assert fetch(Download(files.url, md5=MD5)) == first
        assert len(files.requests) == 1


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ftp://127.0.0.1/ratings.zip", "expected http:// or https://"),
        ("file:///etc/hosts", "expected http:// or https://"),
        ("http://127.0.0.1/", "has no file name"),
        ("http://127.0.0.1/..", "has no file name"),
        ("http://127.0.0.1/%2e%2e%2f..", "has no file name"),
        ("http://127.0.0.1/a b.zip", "is not a valid URL"),
        ("http://127.0.0.1/ä.zip", "is not a valid URL"),
        ("http://127.0.0.1:x/a.zip", "is not a valid URL"),
        ("no-such-set", "unknown data set kind 'no-such-set'"),
        (
            Kind("yahoo-ltr", "search", "", "its folder", "", ""),
            "yahoo-ltr cannot be downloaded automatically; obtain it manually; then prepare its folder",
        ),
    ],
)
def test_what_is_no_address_of_a_file(tmp_path, fetch, address, message):
    assert message in refused(fetch, address)
    assert left(tmp_path) == []


def test_a_wrong_checksum_removes_what_arrived(tmp_path, fetch):
    wrong = hashlib.md5(OTHER).hexdigest()
    with serve(CONTENT) as files:
        message = refused(fetch, Download(files.url, md5=wrong))
    assert f"was downloaded, but md5 mismatch: {MD5}, expected {wrong}; the file was removed" in message
    assert left(tmp_path) == []


def test_a_wrong_size_is_noticed_before_anything_is_lost(tmp_path, fetch):
    with serve(CONTENT, cuts=[200_000]) as files:
        refused(fetch, files.url, attempts=1)
        files.content, files.etag = b"<html>please log in</html>", '"page"'
        assert "has 26 bytes, expected 1,048,576; it is another file or a web page" in refused(
            fetch, files.url, size=len(CONTENT)
        )
    assert (tmp_path / "files" / "ratings.zip.part").read_bytes() == CONTENT[:200_000]


def test_a_wrong_size_is_noticed_where_the_server_did_not_say_it(tmp_path, fetch):
    with serve(CONTENT, lengths=False) as files:
        assert "was downloaded, but it has 1,048,576 bytes, expected 7" in refused(fetch, files.url, size=7)
    assert left(tmp_path) == []


def test_a_file_of_that_name_that_is_another_is_left_alone(tmp_path, fetch):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "ratings.zip").write_bytes(b"mine")
    with serve(CONTENT) as files:
        message = refused(fetch, Download(files.url, md5=MD5))
        assert files.requests == []
    assert "already exists, but md5 mismatch: " in message
    assert "remove it to download it again" in message
    assert (tmp_path / "files" / "ratings.zip").read_bytes() == b"mine"


def test_a_disk_that_is_too_small_is_noticed_before_fetching(fetch, monkeypatch):
    monkeypatch.setattr(PartFile, "free_bytes", lambda _: 1000)
    with serve(CONTENT) as files:
        assert "needs 1,048,576 bytes, but 1,000 are free; free disk space and try again" in refused(fetch, files.url)


def test_a_disk_that_fills_up_keeps_what_has_arrived(tmp_path, fetch, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with serve(CONTENT) as files:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            assert "disk is full; free disk space, then run the command again to resume" in refused(fetch, files.url)
        assert "ratings.zip.part" in left(tmp_path)
        assert fetch(Download(files.url, md5=MD5)).read_bytes() == CONTENT


def test_a_folder_that_cannot_be_made(tmp_path, fetch):
    (tmp_path / "files").write_text("a file")
    with serve(CONTENT) as files, pytest.raises(DataError, match="cannot be written .*; choose another directory"):
        fetch(files.url)
