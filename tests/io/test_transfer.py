"""Transfers over HTTP: retries, redirects and errors."""

import fcntl
import socket
import ssl
import urllib.error
import urllib.request

import pytest

from songrank.data.registry import Download
from songrank.io.transfer import PartFile
from tests.data.http_files import serve
from tests.io.downloads import CONTENT, MD5, OTHER, SHA256, left, refused


def test_redirects_are_followed_with_their_range(tmp_path, fetch):
    with serve(CONTENT, redirect="/elsewhere", cuts=[100_000]) as files:
        assert fetch(files.url).read_bytes() == CONTENT
    assert files.asked_ranges == [None, None, "bytes=100000-", "bytes=100000-"]
    assert left(tmp_path) == ["ratings.zip"]


def test_a_server_that_does_not_say_how_long_the_file_is(fetch):
    with serve(CONTENT, lengths=False) as files:
        assert fetch(Download(files.url, sha256=SHA256)).read_bytes() == CONTENT


def test_a_broken_connection_goes_on_where_it_broke(fetch, waits):
    with serve(CONTENT, cuts=[200_000, 300_000, 1]) as files:
        assert fetch(Download(files.url, md5=MD5)).read_bytes() == CONTENT
    assert files.asked_ranges == [None, "bytes=200000-", "bytes=500000-", "bytes=500001-"]
    assert all(headers["If-Range"] == '"one"' for headers in files.requests[1:])
    assert waits == [1, 1, 1]  # each attempt brought something


def test_another_call_goes_on_where_the_first_gave_up(tmp_path, fetch):
    with serve(CONTENT, cuts=[200_000]) as files:
        assert "interrupted after 200,000 bytes (expected 1,048,576); run the command again to resume" in refused(
            fetch, files.url, attempts=1
        )
        assert left(tmp_path) == ["ratings.zip.part", "ratings.zip.part.json"]
        assert fetch(Download(files.url, md5=MD5)).read_bytes() == CONTENT
    assert files.asked_ranges == [None, "bytes=200000-"]
    assert left(tmp_path) == ["ratings.zip"]


def test_attempts_that_bring_nothing_come_to_an_end(fetch, waits):
    with serve(CONTENT, cuts=[100] + [0] * 20) as files:
        assert "interrupted after 100 bytes" in refused(fetch, files.url, attempts=4)
    assert len(files.requests) == 4
    assert waits == [1, 2, 4]


def test_a_server_without_ranges_starts_over(fetch):
    with serve(CONTENT, ranges=False, cuts=[200_000]) as files:
        assert fetch(Download(files.url, md5=MD5)).read_bytes() == CONTENT
    assert len(files.requests) == 2


def test_a_server_without_ranges_that_always_breaks_off_is_given_up(fetch):
    with serve(CONTENT, ranges=False, cuts=[200_000] * 50) as files:
        assert "interrupted after 200,000 bytes" in refused(fetch, files.url, attempts=3)
    assert len(files.requests) == 3


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_busy_server_is_asked_again(fetch, status, waits):
    with serve(CONTENT, statuses=[status, status]) as files:
        assert fetch(files.url).read_bytes() == CONTENT
    assert waits == [1, 2]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "not found (404 Not Found); it may have moved; download it in a browser"),
        (410, "not found (410 Gone)"),
        (403, "access denied (403 Forbidden); it may need a login or accepted terms; download it in a browser"),
        (401, "access denied (401 Unauthorized)"),
        (400, "download failed (400 Bad Request); download it in a browser and pass the file"),
        (500, "interrupted after 0 bytes (HTTP 500 Internal Server Error); run the command again to resume"),
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
    assert message.endswith(
        "an invalid certificate (certificate has expired); download it in a browser and pass the file"
    )
    assert waits == []


def test_a_port_where_nobody_listens(fetch, waits):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/ratings.zip"
        assert "interrupted after 0 bytes (Connection refused)" in refused(fetch, address, attempts=3)
    assert waits == [1, 2]


def test_a_server_that_never_answers(fetch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/ratings.zip"
        assert "(timed out)" in refused(fetch, address, attempts=1, timeout=0.05)


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
        assert "is being downloaded by another process; wait until it has finished" in refused(fetch, files.url)
        assert part.path.read_bytes() == b"theirs"
