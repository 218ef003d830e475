"""Sizes in bytes, and free memory."""

import pytest

from songrank.core import memory
from songrank.core.errors import UserError


@pytest.mark.parametrize(("text", "size"), [("1024", 1024), ("2 GB", 2 * 10**9), ("1.5gib", 3 << 29), ("7k", 7000)])
def test_sizes_have_a_unit(text, size):
    assert memory.read_bytes("limit", text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1XB", "1 GB 2", "nan"])
def test_other_texts_are_rejected(text):
    with pytest.raises(UserError, match="expected a size such as 4GB or 512MiB"):
        memory.read_bytes("limit", text)


def test_the_limit_of_a_container_counts(tmp_path, monkeypatch):
    whole = memory.free_memory()
    if whole is None:
        pytest.skip("this system does not report free memory")
    monkeypatch.setattr(memory, "_LIMIT", tmp_path / "memory.max")
    (tmp_path / "memory.max").write_text("12345\n")
    assert memory.free_memory() == 12345
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free_memory() > 12345
