"""Downloads against a server on this machine: broken off, resumed, changed midway, refused, damaged."""

import errno
import fcntl
import hashlib
import os
import socket
import ssl
import urllib.error
import urllib.request

import pytest

from songrank.data import DataError
from songrank.data.download import download
from songrank.data.registry import Download, Kind
from songrank.io import transfer as transfer_module
from songrank.io.part_file import PartFile
from tests.data.http_files import serve

CONTENT = bytes(range(256)) * 4096  # a mebibyte
OTHER = CONTENT[::-1]
MD5, SHA256 = hashlib.md5(CONTENT).hexdigest(), hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def small_reads(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(transfer_module, "_READ_BYTES", 1 << 14)


@pytest.fixture
def waits():
    return []


@pytest.fixture
def fetch(tmp_path, waits):
    def run(what, **more):
        return download(what, tmp_path / "files", wait=waits.append, **more)

    return run


def left(tmp_path):
    folder = tmp_path / "files"
    return sorted(file.name for file in folder.iterdir()) if folder.exists() else []


def refused(fetch, what, **more):
    with pytest.raises(DataError) as raised:
        fetch(what, **more)
    assert "\n" not in str(raised.value)
    return str(raised.value)


# ---- what goes well


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
    fetched = [done for what, done, total in told if what == "fetching ratings.zip" and total == len(CONTENT)]
    assert fetched == sorted(fetched)
    assert fetched[-1] == len(CONTENT)
    assert told[-1] == ("checking ratings.zip", len(CONTENT), len(CONTENT))


def test_a_file_that_is_there_is_not_fetched_again(fetch):
    with serve(CONTENT) as files:
        first = fetch(Download(files.url, md5=MD5))
        assert fetch(Download(files.url, md5=MD5)) == first
        assert len(files.requests) == 1


def test_redirects_are_followed_with_their_range(tmp_path, fetch):
    with serve(CONTENT, redirect="/elsewhere", cuts=[100_000]) as files:
        assert fetch(files.url).read_bytes() == CONTENT
    assert files.asked_ranges == [None, None, "bytes=100000-", "bytes=100000-"]
    assert left(tmp_path) == ["ratings.zip"]


def test_a_server_that_does_not_say_how_long_the_file_is(fetch):
    with serve(CONTENT, lengths=False) as files:
        assert fetch(Download(files.url, sha256=SHA256)).read_bytes() == CONTENT


# ---- what breaks off


def test_a_broken_connection_goes_on_where_it_broke(fetch, waits):
    with serve(CONTENT, cuts=[200_000, 300_000, 1]) as files:
        assert fetch(Download(files.url, md5=MD5)).read_bytes() == CONTENT
    assert files.asked_ranges == [None, "bytes=200000-", "bytes=500000-", "bytes=500001-"]
    assert all(headers["If-Range"] == '"one"' for headers in files.requests[1:])
    assert waits == [1, 1, 1]  # each attempt brought something


def test_another_call_goes_on_where_the_first_gave_up(tmp_path, fetch):
    with serve(CONTENT, cuts=[200_000]) as files:
        assert "broke off after 200,000 bytes (1,048,576 were promised); try again" in refused(
            fetch, files.url, attempts=1
        )
        assert left(tmp_path) == ["ratings.zip.part", "ratings.zip.part.json"]
        assert fetch(Download(files.url, md5=MD5)).read_bytes() == CONTENT
    assert files.asked_ranges == [None, "bytes=200000-"]
    assert left(tmp_path) == ["ratings.zip"]


def test_attempts_that_bring_nothing_come_to_an_end(fetch, waits):
    with serve(CONTENT, cuts=[100] + [0] * 20) as files:
        assert "broke off after 100 bytes" in refused(fetch, files.url, attempts=4)
    assert len(files.requests) == 4
    assert waits == [1, 2, 4]


def test_a_server_without_ranges_starts_over(fetch):
    with serve(CONTENT, ranges=False, cuts=[200_000]) as files:
        assert fetch(Download(files.url, md5=MD5)).read_bytes() == CONTENT
    assert len(files.requests) == 2


def test_a_server_without_ranges_that_always_breaks_off_is_given_up(fetch):
    with serve(CONTENT, ranges=False, cuts=[200_000] * 50) as files:
        assert "broke off after 200,000 bytes" in refused(fetch, files.url, attempts=3)
    assert len(files.requests) == 3


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


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_busy_server_is_asked_again(fetch, status, waits):
    with serve(CONTENT, statuses=[status, status]) as files:
        assert fetch(files.url).read_bytes() == CONTENT
    assert waits == [1, 2]


# ---- what is refused


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "is not there (404 Not Found); it may have moved: look for it and name the file"),
        (410, "is not there (410 Gone)"),
        (403, "may not be fetched (403 Forbidden); it may want a login or its terms accepted: fetch it in a browser"),
        (401, "may not be fetched (401 Unauthorized)"),
        (400, "cannot be fetched (400 Bad Request); fetch it in a browser and name the file"),
        (500, "broke off after 0 bytes (the server answered 500 Internal Server Error); try again"),
    ],
)
def test_refusals_say_what_to_do(tmp_path, fetch, status, message):
    with serve(CONTENT, statuses=[status] * 9) as files:
        assert refused(fetch, files.url).startswith(f"{files.url}: {message}")
    assert left(tmp_path) == []


def test_an_unknown_host_is_said_at_once(fetch, waits, monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    message = refused(fetch, "http://no-such-host.invalid/ratings.zip")
    assert message.endswith("has an unknown host; check the address and the network")
    assert waits == []


def test_a_certificate_that_is_not_valid_is_said_at_once(fetch, waits, monkeypatch):
    def expired(*_, **__):
        reason = ssl.SSLCertVerificationError(1, "certificate verify failed")
        reason.verify_message = "certificate has expired"
        raise urllib.error.URLError(reason)

    monkeypatch.setattr(urllib.request, "urlopen", expired)
    message = refused(fetch, "https://127.0.0.1/ratings.zip")
    assert message.endswith("no valid certificate (certificate has expired); fetch it in a browser and name the file")
    assert waits == []


def test_a_port_where_nobody_listens(fetch, waits):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/ratings.zip"
        assert "broke off after 0 bytes (Connection refused)" in refused(fetch, address, attempts=3)
    assert waits == [1, 2]


def test_a_server_that_never_answers(fetch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/ratings.zip"
        assert "(no answer in time)" in refused(fetch, address, attempts=1, timeout=0.05)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ftp://127.0.0.1/ratings.zip", "expected http:// or https://"),
        ("file:///etc/hosts", "expected http:// or https://"),
        ("http://127.0.0.1/", "names no file"),
        ("http://127.0.0.1/..", "names no file"),
        ("http://127.0.0.1/%2e%2e%2f..", "names no file"),
        ("http://127.0.0.1/a b.zip", "is not a well-formed address"),
        ("http://127.0.0.1/ä.zip", "is not a well-formed address"),
        ("http://127.0.0.1:x/a.zip", "is not a well-formed address"),
        ("no-such-set", "'no-such-set' is no kind of data set"),
        (
            Kind("yahoo-ltr", "search", "", "its folder", "", ""),
            "yahoo-ltr cannot be fetched by a program; get it yourself; then prepare its folder",
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
    assert f"arrived, but its md5 is {MD5} and not {wrong}; what arrived was removed" in message
    assert left(tmp_path) == []


def test_a_wrong_size_is_noticed_before_anything_is_lost(tmp_path, fetch):
    with serve(CONTENT, cuts=[200_000]) as files:
        refused(fetch, files.url, attempts=1)
        files.content, files.etag = b"<html>please log in</html>", '"page"'
        assert "has 26 bytes and not 1,048,576; it is another file, or a page about it" in refused(
            fetch, files.url, size=len(CONTENT)
        )
    assert (tmp_path / "files" / "ratings.zip.part").read_bytes() == CONTENT[:200_000]


def test_a_wrong_size_is_noticed_where_the_server_did_not_say_it(tmp_path, fetch):
    with serve(CONTENT, lengths=False) as files:
        assert "arrived, but it has 1,048,576 bytes and not 7" in refused(fetch, files.url, size=7)
    assert left(tmp_path) == []


def test_a_file_of_that_name_that_is_another_is_left_alone(tmp_path, fetch):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "ratings.zip").write_bytes(b"mine")
    with serve(CONTENT) as files:
        message = refused(fetch, Download(files.url, md5=MD5))
        assert files.requests == []
    assert "is there already, but its md5 is" in message
    assert "move or remove it to fetch it again" in message
    assert (tmp_path / "files" / "ratings.zip").read_bytes() == b"mine"


# ---- the disk


def test_a_disk_that_is_too_small_is_noticed_before_fetching(fetch, monkeypatch):
    monkeypatch.setattr(PartFile, "free_bytes", lambda _: 1000)
    with serve(CONTENT) as files:
        assert "needs 1,048,576 bytes and 1,000 are free; free space, then try again" in refused(fetch, files.url)


def test_a_disk_that_fills_up_keeps_what_has_arrived(tmp_path, fetch, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with serve(CONTENT) as files:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            assert "does not fit on the disk; free space, then try again" in refused(fetch, files.url)
        assert "ratings.zip.part" in left(tmp_path)
        assert fetch(Download(files.url, md5=MD5)).read_bytes() == CONTENT


def test_a_folder_that_cannot_be_made(tmp_path, fetch):
    (tmp_path / "files").write_text("a file")
    with serve(CONTENT) as files, pytest.raises(DataError, match="cannot be written .*; choose another folder"):
        fetch(files.url)


def test_two_processes_do_not_fetch_into_one_part(tmp_path, fetch):
    part = PartFile(tmp_path / "files" / "ratings.zip")
    with serve(CONTENT) as files, part.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write(b"theirs")
        held.flush()
        assert "is being fetched by another process; wait until that is done" in refused(fetch, files.url)
        assert part.path.read_bytes() == b"theirs"
