"""JSON files on disk."""

import math

import pytest

from songrank.core.errors import DataError
from songrank.io.json_files import plain, read_json, write_json


def test_an_object_survives_the_way_through_a_file(tmp_path):
    content = {"name": "größe", "sizes": [1, 2.5, None], "odd": "a\ud800b"}
    write_json(tmp_path / "a.json", content)
    assert read_json(tmp_path / "a.json") == content
    raw = (tmp_path / "a.json").read_bytes()
    assert raw.endswith(b"}\n")
    assert b"\r" not in raw
    assert "größe".encode() in raw


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"[1]", "is not a JSON object"),
        (b"{", "is not valid JSON"),
        (b"\xff", "is not valid JSON"),
        (b"[" * 100_000, "is not valid JSON"),
    ],
)
def test_a_damaged_file_is_one_line_with_its_remedy(tmp_path, raw, message):
    (tmp_path / "a.json").write_bytes(raw)
    with pytest.raises(DataError, match=rf"a\.json: {message}.*; make it again$"):
        read_json(tmp_path / "a.json", "make it again")


def test_a_missing_file_has_a_remedy_of_its_own(tmp_path):
    with pytest.raises(DataError, match=r"a\.json: is missing; train first$"):
        read_json(tmp_path / "a.json", "make it again", missing="train first")
    with pytest.raises(DataError, match="cannot be read .*; check path and permissions$"):
        read_json(tmp_path)


def test_numbers_that_json_lacks_become_null_at_any_depth():
    assert plain({"a": [math.inf, (1.0, -math.inf)], "b": {"c": math.nan}}) == {
        "a": [None, [1.0, None]],
        "b": {"c": None},
    }


def test_every_flipped_bit_is_refused_or_without_effect(tmp_path):
    file, content = tmp_path / "a.json", {"name": "set", "counts": {"train": 12}}
    write_json(file, content)
    data = file.read_bytes()
    for at in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[at // 8] ^= 1 << at % 8
        file.write_bytes(damaged)
        try:
            assert read_json(file) == content, f"byte {at // 8}: {bytes(damaged[at // 8 - 8 : at // 8 + 8])!r}"
        except DataError:
            continue
