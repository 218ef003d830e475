"""Which rows of a labelling task are for what, and which file is what."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from songrank.core.csr import CSR
from songrank.data import DataError, prepare
from songrank.data.preparation.labelled_queries import choose_files, label_table, split_rows
from songrank.data.preparation_options import QuerySplitOptions
from songrank.io.source import Job, Source
from tests.data.folders import contents
from tests.data.preparation.prepared import few
from tests.data.readers.labelled import labels_of, write_files

TRAIN = "4 2 3\n0 0:1\n1 0:1\n2 0:1\n0 1:1\n"

TEST = "2 2 3\n1 1:1\n2 1:1\n"


@pytest.fixture
def folder(tmp_path):
    return write_files(tmp_path / "source", {"train.txt": TRAIN, "test.txt": TEST})


def numbers(splits):
    return {name: (split.rows - split.first).tolist() for name, split in splits.items()}


def test_own_files_are_the_splits_unless_said_otherwise(folder, tmp_path):
    dataset = prepare("xmc", folder, tmp_path / "set")
    assert list(dataset) == ["train", "test"]
    assert labels_of(dataset, "train") == {0: [0], 1: [1], 2: [2], 3: [0]}
    assert labels_of(dataset, "test") == {0: [1], 1: [2]}
    assert not dataset.info["shared_queries"]


def test_validation_rows_are_carved_out_of_the_training_file(folder, tmp_path):
    dataset = prepare("xmc", folder, tmp_path / "set", validation=0.5)
    train, validation = labels_of(dataset, "train"), labels_of(dataset, "validation")
    assert len(train) == len(validation) == 2
    assert train | validation == {0: [0], 1: [1], 2: [2], 3: [0]}
    assert labels_of(dataset, "test") == {0: [1], 1: [2]}


def test_a_random_split_counts_rows_through_both_files(folder, tmp_path):
    dataset = prepare("xmc", folder, tmp_path / "set", split="random", validation=0.2, test=0.3)
    rows = [labels_of(dataset, split) for split in ("train", "validation", "test")]
    assert [len(part) for part in rows] == [3, 1, 2]
    assert rows[0] | rows[1] | rows[2] == {0: [0], 1: [1], 2: [2], 3: [0], 4: [1], 5: [2]}


def test_one_file_is_split_at_random_a_tenth_each(tmp_path):
    file = write_files(tmp_path, {"train.txt": "20 1 2\n" + "1 0:1\n" * 20}) / "train.txt"
    dataset = prepare("xmc", file, tmp_path / "set")
    assert {split: dataset[split].num_queries for split in dataset} == {"train": 16, "validation": 2, "test": 2}


def test_nothing_to_hold_out_makes_no_empty_split(tmp_path):
    file = write_files(tmp_path, {"data.txt": TRAIN}) / "data.txt"
    assert list(prepare("xmc", file, tmp_path / "set", validation=0, test=0)) == ["train"]


def test_the_same_seed_gives_the_same_bytes_and_another_other_rows(folder, tmp_path):
    options = {"split": "random", "validation": 0.2, "test": 0.3}
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        prepare("xmc", folder, tmp_path / name, seed=seed, **options)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert contents(tmp_path / "a")["train.safetensors"] != contents(tmp_path / "c")["train.safetensors"]


@few
@given(st.integers(5, 60), st.integers(1, 20), st.floats(0, 0.4), st.floats(0, 0.4), st.integers(0, 9), st.booleans())
def test_splits_are_disjoint_and_cover_all_rows(train, test, validation, held_out, seed, given_files):
    options = QuerySplitOptions(
        split="given" if given_files else "random", validation=validation, test=held_out, seed=seed
    )
    splits = split_rows({"train": train, "test": test}, options)
    rows = np.concatenate([split.rows for split in splits.values()])
    assert sorted(rows.tolist()) == list(range(train + test))
    assert all((np.diff(split.rows) > 0).all() for split in splits.values())
    assert ("validation" in splits) == (validation > 0)
    if given_files:
        assert numbers(splits)["test"] == list(range(test))
    else:
        assert ("test" in splits) == (held_out > 0)


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["train.txt"], {}, "has no test file"),
        (["a_tst.txt"], {}, "has no train file"),
        (["data.txt"], {"split": "given"}, "has no train and no test file (found: one file)"),
        (["a.txt", "b.txt"], {}, "2 candidates for the data file: a.txt, b.txt"),
        (["a_train.txt", "b_train.txt", "test.txt"], {}, "2 candidates for the training file"),
        (["val.txt", "test.txt"], {}, "has no train file (found: validation, test)"),
        (
            ["train.txt", "val.txt", "test.txt"],
            {"validation": 0.2},
            "validation is 0.2, but the source has a validation file",
        ),
        (["train.txt", "test.txt"], {"test": 0.2}, "test is 0.2, but the source has a test file"),
        (["data.txt"], {"validation": 0.5, "test": 0.5}, "validation 0.5 and test 0.5 leave nothing for training"),
        (["data.txt"], {"test": 0.95}, "validation 0.1 and test 0.95 leave nothing"),
    ],
)
def test_files_that_do_not_fit_the_split_are_named_before_they_are_read(names, options, message, tmp_path):
    with pytest.raises(DataError) as error:
        choose_files([Source(tmp_path / name) for name in names], QuerySplitOptions(**options), tmp_path)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("names", "roles"),
    [
        (["x_test.txt", "x_train.txt"], {"train": "x_train.txt", "test": "x_test.txt"}),
        (["dev.json", "trn.json", "tst.json"], {"train": "trn.json", "validation": "dev.json", "test": "tst.json"}),
        (["train/x_test.txt", "train/x.txt"], {"train": "x.txt", "test": "x_test.txt"}),
        (["latest_data.txt"], {"all": "latest_data.txt"}),
        (["contest.txt"], {"all": "contest.txt"}),
    ],
)
def test_whole_words_of_names_then_of_folders_say_what_a_file_is_for(names, roles, tmp_path):
    chosen = choose_files([Source(tmp_path / name) for name in names], QuerySplitOptions(), tmp_path)
    assert list(chosen) == list(roles)
    assert {role: source.file_name for role, source in chosen.items()} == roles


@pytest.mark.parametrize(
    ("kind", "extra"), [("xmc", "more.txt"), ("arff", "more.arff"), ("xmc-text", "more_texts.txt")]
)
def test_a_file_that_names_no_split_beside_others_that_do_is_named(kind, extra, tmp_path):
    files, options = FILES[kind]
    train = next(iter(files))
    source = write_files(tmp_path / "source", {**files, extra: files[train]})
    with pytest.raises(DataError, match=extra):
        prepare(kind, source, tmp_path / "set", **options)


def test_texts_that_are_no_bags_of_words_are_passed_over(folder, tmp_path):
    write_files(folder, {"notes.txt": "12 monkeys\n", "label_map.txt": "a\nb\nc\n", "empty.txt": ""})
    assert prepare("xmc", folder, tmp_path / "set").num_queries == 6


@pytest.mark.parametrize("empty", ["train", "validation", "test"])
def test_a_file_without_rows_is_refused(empty):
    rows = {"train": 3, "validation": 2, "test": 3, empty: 0}
    with pytest.raises(DataError, match=f"the {empty} file has no rows"):
        split_rows(rows, QuerySplitOptions())


@pytest.mark.parametrize(
    ("rows", "options"), [(2, {}), (1, {"test": 0}), (0, {"validation": 0, "test": 0}), (1, {"validation": 0})]
)
def test_rows_that_are_too_few_to_divide_are_refused(rows, options):
    with pytest.raises(DataError, match=rf"{rows} rows? cannot be split into"):
        split_rows({"all": rows}, QuerySplitOptions(**options))


def test_each_part_of_few_rows_has_one():
    assert {name: len(split.rows) for name, split in split_rows({"all": 3}, QuerySplitOptions()).items()} == {
        "train": 1,
        "validation": 1,
        "test": 1,
    }
    assert len(split_rows({"train": 3, "test": 1}, QuerySplitOptions(validation=0.01))["validation"].rows) == 1


@pytest.mark.parametrize("options", [{"validation": 1.0}, {"test": -0.1}, {"split": "time"}, {"seed": -1}, {"k": 1}])
def test_options_out_of_range_are_refused(options, folder, tmp_path):
    with pytest.raises(DataError):
        prepare("xmc", folder, tmp_path / "set", **options)


def test_repeated_labels_count_once_with_their_largest_relevance():
    table = CSR.from_lengths([3, 0, 2], item=[2, 0, 2, 1, 1], label=[1, 1, 3, 0, 0])
    job = Job()
    tidy = label_table(table, job)
    assert tidy.offsets.tolist() == [0, 2, 2, 2]
    assert tidy["item"].tolist() == [0, 2]
    assert tidy["label"].tolist() == [1.0, 3.0]
    assert job.counts == {"labels repeated in a row": 2, "labels of relevance 0": 1}


HEAD = "@relation x\n@attribute a numeric\n@attribute b numeric\n@attribute c {0,1}\n@data\n"

FILES = {
    "xmc": ({"train.txt": TRAIN, "test.txt": TEST}, {}),
    "xmc-text": ({"train_texts.txt": "a b\n\nc\n", "train_labels.txt": "x y\nz\n\n", "test_texts.txt": "c",
                  "test_labels.txt": "x"}, {}),
    "arff": ({"train.arff": HEAD + "1,2,1\n{0 3}\n", "test.arff": HEAD + "{2 1}\n"}, {"labels": 1}),
}  # fmt: skip


@pytest.mark.parametrize("word", ["val", "valid", "dev", "validation"])
@pytest.mark.parametrize("kind", sorted(FILES))
def test_a_validation_file_is_the_validation_split(kind, word, tmp_path):
    files, options = FILES[kind]
    more = {name.replace("test", word): text for name, text in files.items() if "test" in name}
    source = write_files(tmp_path / "source", {**files, **more})
    dataset = prepare(kind, source, tmp_path / "set", **options)
    assert list(dataset) == ["train", "validation", "test"]
    assert labels_of(dataset, "validation") == labels_of(dataset, "test")
    files = contents(dataset.path)
    assert files["validation.safetensors"] == files["test.safetensors"]
    with pytest.raises(DataError, match="the source has a validation file"):
        prepare(kind, source, tmp_path / "again", validation=0.5, **options)


def test_json_lines_have_a_validation_file_too(tmp_path):
    files = {f"{name}.json": f'{{"id": 1, "text": "{name}", "labels": ["a"]}}\n' for name in ("train", "val", "test")}
    dataset = prepare("xmc-text", write_files(tmp_path / "source", files), tmp_path / "set")
    assert {split: labels_of(dataset, split) for split in dataset} == {
        split: {1: ["a"]} for split in ("train", "validation", "test")
    }


def test_json_lines_of_another_ending_are_not_passed_over(tmp_path):
    files = dict.fromkeys(("train.json", "test.json", "more.jsonl"), '{"text": "a", "labels": ["a"]}\n')
    with pytest.raises(DataError, match=r"more\.jsonl"):
        prepare("xmc-text", write_files(tmp_path / "source", files), tmp_path / "set")


def test_raw_texts_are_preferred_for_each_split_on_its_own(tmp_path):
    files = dict(FILES["xmc-text"][0])
    files |= {"train_raw_texts.txt": "d e\n\nf\n"}
    dataset = prepare("xmc-text", write_files(tmp_path / "source", files), tmp_path / "set")
    assert (dataset.path / "vocabulary.txt").read_text().split() == ["d", "e", "f"]
    assert dataset["test"].lengths.tolist() == [1]


@pytest.mark.parametrize("kind", sorted(FILES))
@pytest.mark.parametrize("block_bytes", [1, 7, 30])
def test_where_blocks_end_changes_nothing(kind, block_bytes, tmp_path, monkeypatch):
    files, options = FILES[kind]
    source = write_files(tmp_path / "source", files)
    prepare(kind, source, tmp_path / "whole", **options)
    monkeypatch.setattr(Source, "blocks", functools.partialmethod(Source.blocks, block_bytes=block_bytes))
    prepare(kind, source, tmp_path / "parts", **options)
    assert contents(tmp_path / "whole") == contents(tmp_path / "parts")
