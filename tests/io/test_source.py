"""Bytes from files and archives: blocks of whole lines, whatever the packing, and errors that say what to do."""

import bz2
import gzip
import hashlib
import lzma
import os
import threading
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from songrank.data import DataError
from songrank.io.source import Job, Source, find_sources
from tests.data.folders import write_zip

TEXT = b"".join(b"line %d of some text\n" % i for i in range(1000))


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz", ".zip"])
def test_packed_files_give_the_same_lines_and_the_checksum_of_what_is_inside(suffix, tmp_path):
    file = tmp_path / f"text.txt{suffix}"
    pack = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
    if suffix == ".zip":
        write_zip(file, {"a/text.txt": TEXT})
    else:
        file.write_bytes(pack[suffix](TEXT))
    (source,) = find_sources(file, ["text.txt"], "text")
    job = Job()
    blocks = list(source.blocks(job, block_bytes=999))
    assert b"".join(block.data for block in blocks) == TEXT
    assert [block.line for block in blocks][:1] == [1]
    for before, after in pairwise(blocks):
        assert after.line == before.line + before.data.count(b"\n")
    assert job.sources[0]["sha256"] == hashlib.sha256(TEXT).hexdigest()
    assert job.sources[0]["bytes"] == len(TEXT)
    assert source.file_name == "text.txt"


@example(b'"\n', 1, True)  # a quote that never closes
@given(st.binary(min_size=1, max_size=60).filter(lambda data: b"\0" not in data), st.integers(1, 20), st.booleans())
def test_blocks_join_to_the_file_however_they_are_cut(tmp_path_factory, data, size, quotes):
    file = tmp_path_factory.mktemp("cut") / "file"
    file.write_bytes(data)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or data == b"\xef\xbb\xbf":
        return
    blocks = list(Source(file).blocks(Job(), block_bytes=max(size, 3), quotes=quotes))
    whole = data if data.endswith(b"\n") else data + b"\n"
    assert b"".join(block.data for block in blocks) == whole.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    if quotes:
        # A quote that does not close within a block's size is given up on, lest a stray one swallow the file.
        assert all(block.data.count(b'"') % 2 == 0 or len(block.data) >= max(size, 3) for block in blocks[:-1])


def test_progress_goes_up_to_the_size_of_the_file(tmp_path):
    file = tmp_path / "text.txt"
    file.write_bytes(TEXT)
    seen = []
    list(Source(file).blocks(Job(lambda *told: seen.append(told)), block_bytes=4096))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert seen[-1] == ("reading text.txt", len(TEXT), len(TEXT))


def test_blocks_that_are_given_up_wait_for_no_thread(tmp_path, monkeypatch):
    """The garbage collector may give them up within a thread that holds what waiting needs: then all stood still."""
    (tmp_path / "a.txt").write_bytes(b"1\n2\n3\n")
    blocks = Source(tmp_path / "a.txt").blocks(Job(), block_bytes=2)
    assert next(blocks).data
    waited = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "join", lambda thread, timeout=None: waited.append(thread))
        blocks.close()
    assert waited == []


def test_a_member_of_an_archive_is_named_by_a_path(tmp_path):
    write_zip(tmp_path / "all.zip", {"a/one.txt": "1\n", "b/two.txt": "2\n"})
    (source,) = find_sources(tmp_path / "all.zip" / "two.txt", ["*"], "anything")
    assert next(source.blocks(Job())).data == b"2\n"
    with pytest.raises(DataError, match="contains no three.txt; found a/one.txt, b/two.txt"):
        find_sources(tmp_path / "all.zip" / "three.txt", ["*"], "anything")


@pytest.mark.parametrize("name", ["q[1].txt", "data.txt.gz", "a/data.txt", "*.txt"])
def test_a_member_is_named_to_the_letter(name, tmp_path):
    write_zip(tmp_path / "all.zip", {"q[1].txt": "1\n", "data.txt.gz": gzip.compress(b"1\n"), "a/data.txt": "1\n"})
    if name == "*.txt":
        with pytest.raises(DataError, match=r"contains no \*\.txt"):
            find_sources(tmp_path / "all.zip" / name, [], "")
        return
    (source,) = find_sources(tmp_path / "all.zip" / name, [], "")
    assert next(source.blocks(Job())).data == b"1\n"


def test_a_name_that_several_members_end_in_is_refused(tmp_path):
    write_zip(tmp_path / "all.zip", {"a/data.txt": "1\n", "b/data.txt": "2\n"})
    with pytest.raises(DataError, match=r"contains 2 files data\.txt; pass one of them, e\.g\. .*all\.zip/a/data\.txt"):
        find_sources(tmp_path / "all.zip" / "data.txt", [], "")


def test_hidden_folders_are_not_searched(tmp_path):
    for folder in (".ipynb_checkpoints", "__MACOSX", "data"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rows.txt").write_text("1\n")
    assert [source.path.parent.name for source in find_sources(tmp_path, ["*.txt"], "text")] == ["data"]


def test_a_message_is_one_line_whatever_names_hold(tmp_path):
    write_zip(tmp_path / "all.zip", {"two\nlines": "1\n"})
    with pytest.raises(DataError, match=r"found two\\nlines") as error:
        find_sources(tmp_path / "all.zip", ["*.txt"], "text")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "damage", [lambda d: d[: len(d) // 2], lambda d: d[:40] + b"\0\1\2\3" * 20 + d[120:], lambda d: b"PK" + d[2:30]]
)
@pytest.mark.parametrize("suffix", [".zip", ".gz", ".xz", ".bz2"])
def test_a_damaged_archive_is_said_to_be_damaged(suffix, damage, tmp_path):
    file = tmp_path / f"text.txt{suffix}"
    text = os.urandom(4000).hex().encode() + b"\n"
    if suffix == ".zip":
        write_zip(file, {"text.txt": text})
    else:
        file.write_bytes({".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[suffix](text))
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(DataError, match=r"text\.txt.*(damaged|cannot be)"):
        [list(source.blocks(Job())) for source in find_sources(file, ["*"], "text")]


@given(st.binary(max_size=200))
def test_any_bytes_called_zip_are_an_archive_or_a_data_error(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("fuzz")
    archive = write_zip(folder / "a.zip", {"text.txt": TEXT}).read_bytes()
    for at, content in enumerate((data, archive[: len(archive) - len(data)] + data, data + archive[len(data) :])):
        (folder / f"{at}.zip").write_bytes(content)
        try:
            [list(source.blocks(Job())) for source in find_sources(folder / f"{at}.zip", ["*"], "text")]
        except DataError as error:
            assert "\n" not in str(error)


def test_a_file_without_permission_is_said_to_be_one(tmp_path):
    (tmp_path / "text.txt").write_text("x")
    (tmp_path / "text.txt").chmod(0)
    root = os.geteuid() == 0
    if root:  # who may read everything
        os.seteuid(65534)
    try:
        with pytest.raises(DataError, match="is not readable; change its permissions"):
            find_sources(tmp_path / "text.txt", ["*"], "text")
    finally:
        if root:
            os.seteuid(0)
