"""Multi-label ARFF files of Mulan and MEKA."""

import pytest

from songrank.data import DataError, prepare
from tests.data.folders import contents, write_zip
from tests.data.readers.labelled import features_of, labels_of, write_files
from tests.data.readers.small_arff import DENSE, HEAD, LIST, SPARSE, TEST, read


@pytest.mark.parametrize("rows", [SPARSE, DENSE])
def test_rows_become_sparse_features_and_named_labels(rows, tmp_path):
    dataset = read(tmp_path, rows)
    assert list(dataset.item_ids) == ["ant", "zoo"]
    assert labels_of(dataset, "train") == {0: ["zoo"], 1: [], 2: ["ant"]}
    assert features_of(dataset, "train") == [{0: 2.5, 3: 1.0}, {}, {1: -1.0, 4: 1.0}]
    assert labels_of(dataset, "test") == {0: ["ant", "zoo"]}
    assert features_of(dataset, "test") == [{0: 1.0, 1: 1.0, 2: 1.0}]
    attributes = [["length", None], ["two words", None], ["colour", ["red", "dark green", "blue"]]]
    attributes.append(['is "odd"', ["0", "1"]])
    assert dataset.info["features"] == {"count": 5, "kind": "sparse", "scale": "none", "attributes": attributes}


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


def test_missing_features_count_as_nothing_and_are_reported(tmp_path):
    dataset = read(tmp_path, "?,1,?,0,1,0\n{0 ?,4 1}\n")
    assert features_of(dataset, "train") == [{1: 1.0}, {}]
    assert dataset.info["made"]["left_out"] == {"missing feature values (read as 0)": 3}


def test_other_encodings_are_read_when_named(tmp_path):
    head = HEAD.replace("ant", "caf\xe9")
    files = {name: (head + SPARSE).encode("latin-1") for name in ("train.arff", "test.arff")}
    source = write_files(tmp_path / "source", files)
    with pytest.raises(DataError, match="line 9: byte 0xe9 is not UTF-8"):
        prepare("arff", source, tmp_path / "set", labels=2)
    dataset = prepare("arff", source, tmp_path / "set", labels=2, encoding="latin-1")
    assert list(dataset.item_ids) == ["café", "zoo"]


def test_a_single_attribute_cannot_be_all(tmp_path):
    with pytest.raises(DataError, match="has one attribute; expected at least a feature and a label"):
        read(tmp_path, "1\n", "1\n", "@relation x\n@attribute a {0,1}\n@data\n", None, labels=1)


@pytest.mark.parametrize("test_head", [HEAD.replace("blue", "b\x1b[31m"), HEAD])
@pytest.mark.parametrize("labels", [LIST, LIST.replace("zoo", "colour")])
def test_messages_hold_no_control_characters(test_head, labels, tmp_path):
    head = HEAD.replace("blue", "\x1b[2J")
    files = {"train.arff": head + DENSE, "test.arff": test_head + TEST, "x.xml": labels}
    with pytest.raises(DataError) as error:
        prepare("arff", write_files(tmp_path / "source", files), tmp_path / "set")
    assert (error.value.what + error.value.fix).isprintable()


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (HEAD.replace("@attribute length NUMERIC\n", ""), "has 5 attributes, but"),
        (HEAD.replace("blue", "pink"), "attribute 2 is 'colour' {'red', 'dark green', 'pink'}, but in"),
        (HEAD.replace("length", "width"), "attribute 0 is 'width', but in"),
    ],
)
def test_two_files_must_have_the_same_attributes(head, message, tmp_path):
    source = write_files(tmp_path / "source", {"train.arff": HEAD + DENSE, "test.arff": head + TEST, "x.xml": LIST})
    with pytest.raises(DataError) as error:
        prepare("arff", source, tmp_path / "set")
    assert message in str(error.value)


def test_a_folder_with_a_list_and_no_data_is_refused(tmp_path):
    with pytest.raises(DataError, match="contains no ARFF file"):
        prepare("arff", write_files(tmp_path / "source", {"x.xml": LIST}), tmp_path / "set")


def test_bibtex_has_the_published_counts(real_data, tmp_path):
    dataset = prepare("arff", real_data / "bibtex.zip", tmp_path / "set")
    assert {split: dataset[split].num_queries for split in dataset} == {"train": 4_880, "test": 2_515}
    assert (dataset.num_items, dataset.info["features"]["count"], dataset.num_pairs) == (159, 1_836, 17_762)
    assert dataset.item_ids[0] == "TAG_2005"
    assert list(features_of(dataset, "train")[0])[:4] == [0, 5, 6, 20]
