"""Headers of ARFF files."""

import pytest

from songrank.data import DataError, prepare
from tests.data.readers.labelled import write_files
from tests.data.readers.small_arff import HEAD, SPARSE, read


@pytest.mark.parametrize(
    ("head", "line", "message"),
    [
        ("", None, "is empty"),
        ("@relation x\n@attribute a numeric\n", None, "has no line @data"),
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
    with pytest.raises(DataError, match="has two labels with the name 'zoo'"):
        read(tmp_path, SPARSE, head=HEAD.replace("ant", "zoo"), label_list=None, labels=2)
