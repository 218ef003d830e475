"""Rows of ARFF files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from songrank.data import DataError, prepare
from tests.data.folders import contents
from tests.data.readers.labelled import features_of, labels_of
from tests.data.readers.small_arff import DENSE, HEAD, SPARSE, few, read


def test_dense_and_sparse_rows_give_the_same_arrays(tmp_path):
    sparse, dense = (contents(read(tmp_path, rows, name=name).path) for name, rows in (("a", SPARSE), ("b", DENSE)))
    assert sparse["train.safetensors"] == dense["train.safetensors"]
    assert sparse["ids.safetensors"] == dense["ids.safetensors"]


def test_a_question_mark_in_quotes_is_a_value(tmp_path):
    head = HEAD.replace("{red,", "{'?',red,")
    for name, rows in (
        ("dense", "0,0,red,0,1,0\n0,0,'?',0,1,0\n0,0,?,0,1,0\n"),
        ("sparse", "{2 red,4 1}\n{2 '?',4 1}\n{2 ?,4 1}\n"),
    ):
        dataset = read(tmp_path, rows, head=head, name=name)
        assert features_of(dataset, "train") == [{2: 1.0}, {}, {}]
        assert dataset.info["made"]["left_out"] == {"missing feature values (read as 0)": 1}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,2,red,0,1", "has 5 values for 6 attributes"),
        ("1,2,red,0,1,0,0", "has 7 values for 6 attributes"),
        ("a,2,red,0,1,0", "attribute 'length' is 'a'; expected a finite number"),
        ("nan,2,red,0,1,0", "attribute 'length' is 'nan'"),
        ("1e99,2,red,0,1,0", "attribute 'length' is '1e99'"),
        ("1,,red,0,1,0", "attribute 'two words' is ''"),
        ("1,2,yellow,0,1,0", "attribute 'colour' is 'yellow'; expected one of 'red', 'dark green', 'blue'"),
        ("1,2,'red,0,1,0", "has unbalanced quotes"),
        ("1,2,red,0,?,0", "label 'zoo' is missing (?)"),
        ("1,2,red,0,2,0", "attribute 'zoo' is '2'; expected one of '0', '1'"),
        ("{6 1}", "attribute is '6', but the file has 6"),
        (f"{{{'9' * 5000} 1}}", "but the file has 6"),
        ("{-1 1}", "'-1 1' is not an index and a value"),
        ("{0}", "'0' is not an index and a value"),
        ("{0 1,,1 2}", "'' is not an index and a value"),
        ("{0 1,0 2}", "attribute 0 is repeated"),
        ("{4 ?}", "label 'zoo' is missing (?)"),
        ("{0 1", "ends in '{0 1'; expected }"),
        ("{0 1}, {5}", "'{5' is not an index and a value"),
        ("@attribute late numeric", "has 1 values for 6 attributes"),
    ],
)
def test_mistakes_in_rows_are_named_with_their_line(row, message, tmp_path):
    with pytest.raises(DataError) as error:
        read(tmp_path, f"{SPARSE}{row}\n")
    assert message in str(error.value)
    assert error.value.file.endswith("x-train.arff")
    assert error.value.line == 12 + 5
    assert not (tmp_path / "set").exists()


def test_sparse_rows_cannot_leave_out_a_label_that_begins_with_one(tmp_path):
    head = HEAD.replace("zoo {0,1}", "zoo {1,0}")
    assert labels_of(read(tmp_path, DENSE, head=head), "train") == {0: ["zoo"], 1: [], 2: ["ant"]}
    with pytest.raises(DataError, match="sparse rows omit first values, but that of label 'zoo' is not 0"):
        read(tmp_path, SPARSE, head=head, name="sparse")


ROWS = st.text("{}0123, 1'\"?red\n%.-", max_size=40)


@few
@given(st.one_of(st.binary(max_size=60), ROWS.map(lambda rows: (HEAD + DENSE + rows).encode())))
def test_any_bytes_are_rows_or_a_data_error(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "x.arff").write_bytes(data)
    try:
        prepare("arff", folder / "x.arff", folder / "set", labels=2)
    except DataError as error:
        assert "\n" not in str(error)
