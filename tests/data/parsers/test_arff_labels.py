"""Which attributes of an ARFF file are labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from songrank.data import DataError
from tests.data.readers.small_arff import DENSE, LIST, SPARSE, few, read


def test_labels_inside_labels_are_labels_too(tmp_path):
    nested = '<labels><label name="zoo"><label name="ant"></label></label></labels>'
    assert list(read(tmp_path, SPARSE, label_list=nested).item_ids) == ["ant", "zoo"]


@pytest.mark.parametrize(
    ("label_list", "message"),
    [
        (None, "does not say which attributes are labels; put Mulan's XML list"),
        (LIST.replace("ant", "bee"), "has no attribute with the name 'bee', which"),
        ("<labels><label>", "is not XML (no element found)"),
        ("", "is not XML (no element found)"),
        ("<labels/>", "has labels without a name, or none"),
        ("<labels><label/></labels>", "has labels without a name, or none"),
        ("<labels><label name='ant'/><label name='ant'/></labels>", "label 'ant' is listed twice"),
        ("<?xml version='1.0' encoding='klingon'?><labels/>", "x.xml"),
        (b"<labels><label name='caf\xe9'/></labels>", "is not XML (not well-formed (invalid token))"),
        ("<labels><label name='colour'/></labels>", "label 'colour' has the values 'red', 'dark green', 'blue'"),
    ],
)
def test_lists_of_labels_that_do_not_fit_are_refused(label_list, message, tmp_path):
    with pytest.raises(DataError) as error:
        read(tmp_path, SPARSE, label_list=label_list)
    assert message in str(error.value)


@pytest.mark.parametrize("count", [6, 99])
def test_more_labels_than_attributes_are_refused(count, tmp_path):
    with pytest.raises(DataError, match=f"has 6 attributes, so that {count} of them cannot be labels"):
        read(tmp_path, SPARSE, label_list=None, labels=count)


@few
@given(st.text("<>/label name='\"=x &;!?", max_size=60))
def test_any_list_of_labels_is_one_or_a_data_error(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("fuzz")
    try:
        read(folder, DENSE, label_list=f"<labels><label name='zoo'/>{text}</labels>")
    except DataError as error:
        assert "\n" not in str(error)
