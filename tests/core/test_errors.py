"""Error messages of one line."""

import pickle

import pytest

from songrank.core.errors import DataError, expected, first_line, memory_shortage, shown, suggestion


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({}, "label is 'x'; expected a number"),
        ({"file": "a.csv"}, "a.csv: label is 'x'; expected a number"),
        ({"file": "a.csv", "line": 12345}, "a.csv, line 12,345: label is 'x'; expected a number"),
    ],
)
def test_a_data_error_says_where_what_and_how_to_fix_it(where, message):
    error = DataError("label is 'x'", "expected a number", **where)
    assert str(error) == message
    assert error.exit_code == 2


def test_a_data_error_survives_pickling():
    error = DataError("is empty", "add rows", file="a.csv", line=3)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.file, again.line) == (str(error), "a.csv", 3)


def test_a_message_is_one_line_whatever_a_file_is_called():
    text = str(DataError("is empty", "add rows", file="a\nb\x1b[31m.csv"))
    assert text.isprintable()
    assert "a\\nb\\x1b" in text


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (MemoryError(), "out of memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "out of memory (Default"),
        (
            RuntimeError("CUDA out of memory. Tried to allocate 9 GiB.\nMore about it"),
            "out of memory (CUDA out of memory. Tried to allocate 9 GiB.)",
        ),
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling"), "out of memory (CUBLAS"),
    ],
)
def test_out_of_memory_is_recognised(error, found):
    assert memory_shortage(error).startswith(found)


def test_other_errors_are_not_taken_for_out_of_memory():
    assert memory_shortage(RuntimeError("shapes differ")) is None


def test_an_error_without_a_message_is_shown_by_its_type():
    assert first_line(ValueError("")) == "ValueError"
    assert first_line(OSError("disk full\nmore about it")) == "disk full"


@pytest.mark.parametrize("value", ["x" * 500, b"\xff" * 500, list(range(500))])
def test_long_values_are_shortened(value):
    assert len(shown(value, limit=20)) <= 24
    assert "…" in shown(value, limit=20)


@pytest.mark.parametrize(
    ("value", "text"), [("abc", "'abc'"), (b"caf\xe9", "'caf\\xe9'"), ("x" * 99, "'xxxxxxxx…'")], ids=str
)
def test_values_are_quoted_on_one_line(value, text):
    assert shown(value, limit=8) == text


def test_pydantics_complaints_are_reworded():
    assert expected({"type": "missing", "msg": "Field required"}) == "expected a value"
    complaint = {"type": "int_parsing", "msg": "Input should be a valid integer, unable to parse string"}
    assert expected(complaint) == "expected a valid integer"
    assert expected({"type": "greater_than", "msg": "Input should be greater than 0"}) == "expected greater than 0"
    own = {"type": "value_error", "msg": "Value error, a split that leaves something"}
    assert expected(own) == "expected a split that leaves something"


def test_a_suggestion_is_the_closest_name_or_all_of_them():
    assert suggestion("lamdarank", ["song", "lambdarank"]) == "did you mean 'lambdarank'?"
    assert suggestion("xyz", ["song", "lambdarank"]) == "expected one of song, lambdarank"
    assert suggestion("xyz", [], "it has no options") == "it has no options"
