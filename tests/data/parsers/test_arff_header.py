"""Headers of ARFF files, and which of their attributes are labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from songrank.data import DataError, prepare
from tests.data.readers.labelled import write_files
from tests.data.readers.small_arff import DENSE, HEAD, LIST, SPARSE, few, read


@pytest.mark.parametrize(
    ("head", "line", "message"),
    [
        ("", None, "is empty"),
        ("@relation x\n@attribute a numeric\n", None, "has no @data line"),
        ("@relation x\n@data\n", 2, "@data comes before any attribute"),
        ("@relation x\n@attribute a string\n@data\n", 2, "attribute 'a' is of type 'string'"),
        ("@relation x\n@attribute a date yyyy\n@data\n", 2, "attribute 'a' is of type 'date yyyy'"),
        ("@relation x\n@attribute a\n@data\n", 2, "attribute 'a' is of type ''"),
        ("@relation x\n@attribute\n@data\n", 2, "attribute is ''"),
        ("@relation x\n@attribute a {0,1\n@data\n", 2, "attribute 'a' is of type '{0,1'"),
        ("@relation x\n@attribute a {0,,1}\n@data\n", 2, "attribute 'a' has the values '{0,,1}'"),
        ("@relation x\n@attribute a {}\n@data\n", 2, "attribute 'a' has the values '{}'"),
        ("@relation x\n@attribute a {0,0}\n@data\n", 2, "attribute 'a' has the values '{0,0}'"),
        ("@relation x\n@attribute a {'0,1}\n@data\n", 2, "attribute 'a' has the values"),
        ("label,text\n1,2\n", 1, "is 'label,text'; expected @relation, @attribute or @data"),
    ],
)
def test_mistakes_in_the_header_are_named(head, line, message, tmp_path):
    file = write_files(tmp_path, {"x.arff": head}) / "x.arff"
    with pytest.raises(DataError) as error:
        prepare("arff", file, tmp_path / "set", labels=1)
    assert message in str(error.value)
    assert error.value.line == line


def test_two_labels_of_one_name_are_refused(tmp_path):
    with pytest.raises(DataError, match="label 'zoo' is repeated; expected distinct names"):
        read(tmp_path, SPARSE, head=HEAD.replace("ant", "zoo"), label_list=None, labels=2)


def test_labels_inside_labels_are_labels_too(tmp_path):
    nested = '<labels><label name="zoo"><label name="ant"></label></label></labels>'
    assert list(read(tmp_path, SPARSE, label_list=nested).item_ids) == ["ant", "zoo"]


@pytest.mark.parametrize(
    ("label_list", "message"),
    [
        (None, "does not define which attributes are labels; add Mulan's XML file"),
        (LIST.replace("ant", "bee"), "has no attribute named 'bee', a label in"),
        ("<labels><label>", "is not valid XML (no element found)"),
        ("", "is not valid XML (no element found)"),
        ("<labels/>", "has no or unnamed labels"),
        ("<labels><label/></labels>", "has no or unnamed labels"),
        ("<labels><label name='ant'/><label name='ant'/></labels>", "label 'ant' is repeated"),
        ("<?xml version='1.0' encoding='klingon'?><labels/>", "x.xml"),
        (b"<labels><label name='caf\xe9'/></labels>", "is not valid XML (not well-formed (invalid token))"),
        ("<labels><label name='colour'/></labels>", "label 'colour' has the values 'red', 'dark green', 'blue'"),
    ],
)
def test_lists_of_labels_that_do_not_fit_are_refused(label_list, message, tmp_path):
    with pytest.raises(DataError) as error:
        read(tmp_path, SPARSE, label_list=label_list)
    assert message in str(error.value)


@pytest.mark.parametrize("count", [6, 99])
def test_more_labels_than_attributes_are_refused(count, tmp_path):
    with pytest.raises(DataError, match=f"has 6 attributes, but {count} labels are requested"):
        read(tmp_path, SPARSE, label_list=None, labels=count)


@few
@given(st.text("<>/label name='\"=x &;!?", max_size=60))
def test_any_list_of_labels_is_one_or_a_data_error(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("fuzz")
    try:
        read(folder, DENSE, label_list=f"<labels><label name='zoo'/>{text}</labels>")
    except DataError as error:
        assert "\n" not in str(error)
