"""Multi-label ARFF files of Mulan and MEKA."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from songrank.data import DataError, prepare
from tests.data.folders import contents, write_zip
from tests.data.readers.labelled import features_of, labels_of, write_files

few = settings(derandomize=True, max_examples=60, deadline=None)

HEAD = """% a comment
@RELATION 'my data'

@attribute length NUMERIC
@attribute 'two words' real
@attribute colour {red,'dark green',blue}
@attribute "is \\"odd\\"" {0, 1}
@attribute zoo {0,1}
@ATTRIBUTE\tant\t{0,1}

@DATA
"""
LABELS = '<label name="zoo"/><label name="ant"/>'
LIST = f'<?xml version="1.0"?><labels xmlns="http://mulan.sourceforge.net/labels">{LABELS}</labels>'
SPARSE = "{0 2.5,2 blue,4 1}\n% between\n\n{}\n{5 1 , 3 1, 1 -1}\n"
DENSE = "2.5,0,blue,0,1,0\n0,0,red,0,0,0\n0, -1 ,'red',1, 0,1\n"
TEST = "1,1,'dark green',0,1,1\n"


def read(folder, train, test=TEST, head=HEAD, label_list=LIST, name="set", **options):
    files = {"x-train.arff": head + train, "x-test.arff": head + test}
    if label_list is not None:
        files["x.xml"] = label_list
    return prepare("arff", write_files(folder / f"{name}-source", files), folder / name, **options)


@pytest.mark.parametrize("rows", [SPARSE, DENSE])
def test_rows_become_sparse_features_and_named_labels(rows, tmp_path):
    dataset = read(tmp_path, rows)
    assert list(dataset.item_ids) == ["ant", "zoo"]
    assert labels_of(dataset, "train") == {0: ["zoo"], 1: [], 2: ["ant"]}
    assert features_of(dataset, "train") == [{0: 2.5, 3: 1.0}, {}, {1: -1.0, 4: 1.0}]
    assert labels_of(dataset, "test") == {0: ["ant", "zoo"]}
    assert features_of(dataset, "test") == [{0: 1.0, 1: 1.0, 2: 1.0}]
    assert dataset.info["features"] == {"count": 5, "kind": "sparse", "scale": "none"}


def test_dense_and_sparse_rows_give_the_same_arrays(tmp_path):
    sparse, dense = (contents(read(tmp_path, rows, name=name).path) for name, rows in (("a", SPARSE), ("b", DENSE)))
    assert sparse["train.safetensors"] == dense["train.safetensors"]
    assert sparse["ids.safetensors"] == dense["ids.safetensors"]


def test_two_runs_give_the_same_bytes(tmp_path):
    source = write_zip(tmp_path / "x.zip", {"x.arff": HEAD + SPARSE * 5, "x.xml": LIST})
    for name in "ab":
        prepare("arff", source, tmp_path / name, seed=3)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


MEKA = (
    "@attribute zoo {0,1}\n@attribute ant {0,1}\n@attribute x numeric\n@attribute y numeric\n@data\n1,0,5,6\n0,1,7,0\n"
)


@pytest.mark.parametrize(
    ("relation", "options", "names", "first"),
    [
        ("'Music: -C 2'", {}, ["ant", "zoo"], {0: 5.0, 1: 6.0}),
        ("music -C -2", {}, ["x", "y"], {0: 1.0}),
        ("music", {"labels": 2, "label_position": "first"}, ["ant", "zoo"], {0: 5.0, 1: 6.0}),
        ("music -C 3", {"labels": 1}, ["y"], {0: 1.0, 2: 5.0}),
    ],
)
def test_without_a_list_the_labels_are_counted(relation, options, names, first, tmp_path):
    file = write_files(tmp_path, {"music.arff": f"@relation {relation}\n{MEKA}"}) / "music.arff"
    dataset = prepare("arff", file, tmp_path / "set", validation=0, test=0, **options)
    assert list(dataset.item_ids) == names
    assert features_of(dataset, "train")[0] == first


def test_numeric_labels_are_graded(tmp_path):
    file = write_files(tmp_path, {"x.arff": f"@relation x\n{MEKA}"}) / "x.arff"
    dataset = prepare("arff", file, tmp_path / "set", validation=0, test=0, labels=2)
    assert labels_of(dataset, "train") == {0: ["x", "y"], 1: ["x"]}
    assert dataset["train"].label.tolist() == [5.0, 6.0, 7.0]


def test_the_list_next_to_a_single_file_is_found(tmp_path):
    folder = write_files(tmp_path / "plain", {"x-train.arff": HEAD + SPARSE, "x.xml": LIST, "other.xml": "<nothing/>"})
    assert prepare("arff", folder / "x-train.arff", tmp_path / "a", test=0).num_items == 2
    archive = write_zip(tmp_path / "x.zip", {"x-train.arff": HEAD + SPARSE, "x.xml": LIST})
    assert prepare("arff", archive / "x-train.arff", tmp_path / "b", test=0).num_items == 2


def test_labels_inside_labels_are_labels_too(tmp_path):
    nested = '<labels><label name="zoo"><label name="ant"></label></label></labels>'
    assert list(read(tmp_path, SPARSE, label_list=nested).item_ids) == ["ant", "zoo"]


def test_missing_features_count_as_nothing_and_are_reported(tmp_path):
    dataset = read(tmp_path, "?,1,?,0,1,0\n{0 ?,4 1}\n")
    assert features_of(dataset, "train") == [{1: 1.0}, {}]
    assert dataset.info["made"]["left_out"] == {"missing values of features (taken as 0)": 3}


def test_a_question_mark_in_quotes_is_a_value(tmp_path):
    head = HEAD.replace("{red,", "{'?',red,")
    for name, rows in (
        ("dense", "0,0,red,0,1,0\n0,0,'?',0,1,0\n0,0,?,0,1,0\n"),
        ("sparse", "{2 red,4 1}\n{2 '?',4 1}\n{2 ?,4 1}\n"),
    ):
        dataset = read(tmp_path, rows, head=head, name=name)
        assert features_of(dataset, "train") == [{2: 1.0}, {}, {}]
        assert dataset.info["made"]["left_out"] == {"missing values of features (taken as 0)": 1}


def test_other_encodings_are_read_when_named(tmp_path):
    head = HEAD.replace("ant", "caf\xe9")
    files = {name: (head + SPARSE).encode("latin-1") for name in ("train.arff", "test.arff")}
    source = write_files(tmp_path / "source", files)
    with pytest.raises(DataError, match="line 9: byte 0xe9 is not UTF-8"):
        prepare("arff", source, tmp_path / "set", labels=2)
    dataset = prepare("arff", source, tmp_path / "set", labels=2, encoding="latin-1")
    assert list(dataset.item_ids) == ["café", "zoo"]


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
        ("1,2,'red,0,1,0", "has a quote that does not close"),
        ("1,2,red,0,?,0", "label 'zoo' is missing (?)"),
        ("1,2,red,0,2,0", "attribute 'zoo' is '2'; expected one of '0', '1'"),
        ("{6 1}", "attribute is '6', but the file has 6"),
        (f"{{{'9' * 5000} 1}}", "but the file has 6"),
        ("{-1 1}", "'-1 1' is not an attribute and its value"),
        ("{0}", "'0' is not an attribute and its value"),
        ("{0 1,,1 2}", "'' is not an attribute and its value"),
        ("{0 1,0 2}", "attribute 0 is repeated"),
        ("{4 ?}", "label 'zoo' is missing (?)"),
        ("{0 1", "ends in '{0 1'; expected }"),
        ("{0 1}, {5}", "'{5' is not an attribute and its value"),
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


def test_a_single_attribute_cannot_be_all(tmp_path):
    with pytest.raises(DataError, match="has one attribute; expected at least two"):
        read(tmp_path, "1\n", "1\n", "@relation x\n@attribute a {0,1}\n@data\n", None, labels=1)


@pytest.mark.parametrize("test_head", [HEAD.replace("blue", "b\x1b[31m"), HEAD])
@pytest.mark.parametrize("labels", [LIST, LIST.replace("zoo", "colour")])
def test_messages_hold_no_control_characters(test_head, labels, tmp_path):
    head = HEAD.replace("blue", "\x1b[2J")
    files = {"train.arff": head + DENSE, "test.arff": test_head + TEST, "x.xml": labels}
    with pytest.raises(DataError) as error:
        prepare("arff", write_files(tmp_path / "source", files), tmp_path / "set")
    assert (error.value.what + error.value.fix).isprintable()


def test_two_labels_of_one_name_are_refused(tmp_path):
    with pytest.raises(DataError, match="has two labels with the name 'zoo'"):
        read(tmp_path, SPARSE, head=HEAD.replace("ant", "zoo"), label_list=None, labels=2)


def test_sparse_rows_cannot_leave_out_a_label_that_begins_with_one(tmp_path):
    head = HEAD.replace("zoo {0,1}", "zoo {1,0}")
    assert labels_of(read(tmp_path, DENSE, head=head), "train") == {0: ["zoo"], 1: [], 2: ["ant"]}
    with pytest.raises(DataError, match="sparse rows leave out first values, and that of label 'zoo' is not 0"):
        read(tmp_path, SPARSE, head=head, name="sparse")


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (HEAD.replace("@attribute length NUMERIC\n", ""), "has 5 attributes, but"),
        (HEAD.replace("blue", "pink"), "attribute 2 is 'colour' {'red', 'dark green', 'pink'}, but that of"),
        (HEAD.replace("length", "width"), "attribute 0 is 'width', but that of"),
    ],
)
def test_two_files_must_have_the_same_attributes(head, message, tmp_path):
    source = write_files(tmp_path / "source", {"train.arff": HEAD + DENSE, "test.arff": head + TEST, "x.xml": LIST})
    with pytest.raises(DataError) as error:
        prepare("arff", source, tmp_path / "set")
    assert message in str(error.value)


def test_a_folder_with_a_list_and_no_data_is_refused(tmp_path):
    with pytest.raises(DataError, match="holds no ARFF file"):
        prepare("arff", write_files(tmp_path / "source", {"x.xml": LIST}), tmp_path / "set")


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


@few
@given(st.text("<>/label name='\"=x &;!?", max_size=60))
def test_any_list_of_labels_is_one_or_a_data_error(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("fuzz")
    try:
        read(folder, DENSE, label_list=f"<labels><label name='zoo'/>{text}</labels>")
    except DataError as error:
        assert "\n" not in str(error)


def test_bibtex_has_the_published_counts(real_data, tmp_path):
    dataset = prepare("arff", real_data / "bibtex.zip", tmp_path / "set")
    assert {split: dataset[split].num_queries for split in dataset} == {"train": 4_880, "test": 2_515}
    assert (dataset.num_items, dataset.info["features"]["count"], dataset.num_pairs) == (159, 1_836, 17_762)
    assert dataset.item_ids[0] == "TAG_2005"
    assert list(features_of(dataset, "train")[0])[:4] == [0, 5, 6, 20]
