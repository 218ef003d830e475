"""IR-Benchmark: a folder per set, with training and test pairs."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from songrank.data import DataError, prepare
from tests.data.folders import write_zip

HEAD = "user_procid\titem_procid\n"
TRAIN = HEAD + "".join(f"{user}\t{item}\n" for user in (0, 1, 2) for item in range(6) if item != user)
TEST = HEAD + "0\t0\n1\t1\n2\t2\n2\t77\n"
SPLITS = {"train": TRAIN, "test": TEST}
COUNTS = {
    "amazon2014-health": (1_974, 1_200, 37_784, 10_405),
    "amazon2014-electronic": (13_455, 8_360, 182_398, 52_123),
    "gowalla": (29_858, 40_988, 810_128, 217_336),
}


@pytest.fixture
def archive(tmp_path):
    files = {f"b/{name}/{split}.tsv": rows for name in ("one", "two") for split, rows in SPLITS.items()}
    return write_zip(tmp_path / "b.zip", {**files, "b/one/summary.txt": "figures"})


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_real_sets_have_the_published_counts(name, real_data, tmp_path):
    if not (real_data / "ir-benchmark.zip").exists():
        pytest.skip("no ir-benchmark.zip among the real data")
    dataset = prepare("ir-benchmark", real_data / "ir-benchmark.zip", tmp_path / "set", set=name, validation=0)
    found = dataset.num_queries, dataset.num_items, dataset["train"].num_pairs, dataset["test"].num_pairs
    assert found == COUNTS[name]
    assert dataset.info["made"]["left_out"] == {}
    assert not any(count for key, count in dataset.info["held_out"]["test"].items() if key != "pairs")


def test_a_tenth_of_each_users_training_pairs_is_for_validation(real_data, tmp_path):
    if not (real_data / "ir-benchmark.zip").exists():
        pytest.skip("no ir-benchmark.zip among the real data")
    source = real_data / "ir-benchmark.zip"
    whole = prepare("ir-benchmark", source, tmp_path / "all", set="amazon2014-health", validation=0)
    dataset = prepare("ir-benchmark", source, tmp_path / "set", set="amazon2014-health")
    assert dataset["test"].item.tolist() == whole["test"].item.tolist()
    assert (dataset.num_queries, dataset.num_items) == (1_974, 1_200)
    counts, cut = whole["train"].offsets.diff(), dataset["validation"].offsets.diff()
    for all_pairs, held_out in zip(counts.tolist(), cut.tolist(), strict=True):
        assert held_out == int(all_pairs / 10 + 0.5)
    assert (dataset["train"].offsets.diff() + cut).tolist() == counts.tolist()
    seen = dataset.relevance("test")  # training and validation items are masked
    assert (seen.num_items - seen.list_size).tolist() == counts.tolist()


def test_a_set_in_an_archive_a_folder_or_alone(archive, tmp_path):
    dataset = prepare("ir-benchmark", archive, tmp_path / "set", set="two", validation=0)
    assert [(name, part.num_pairs) for name, part in dataset.items()] == [("train", 15), ("test", 3)]
    assert dataset.info["held_out"]["test"]["unknown_items"] == 1
    assert dataset.info["source"] == {"set": "two"}
    folder = tmp_path / "one"
    folder.mkdir()
    for split, rows in SPLITS.items():
        (folder / f"{split}.tsv").write_text(rows)
    alone = prepare("ir-benchmark", folder, tmp_path / "alone", validation=0)
    for file in ("train.safetensors", "test.safetensors", "ids.safetensors"):
        assert (alone.path / file).read_bytes() == (dataset.path / file).read_bytes()
    assert alone.info["source"] == {"set": "one"}


def test_the_set_must_be_chosen(archive, tmp_path):
    with pytest.raises(DataError, match=r"b\.zip: contains 2 sets; pass --set with one of one, two"):
        prepare("ir-benchmark", archive, tmp_path / "set")
    with pytest.raises(DataError, match="contains no set 'three'; pass --set with one of one, two"):
        prepare("ir-benchmark", archive, tmp_path / "set", set="three")


@given(st.binary(max_size=60), st.sampled_from(["train", "test"]))
@example(b"0\t0\n", "test")
@example(b"\n0\t\n", "train")
def test_any_bytes_after_the_header_are_pairs_or_a_data_error(tmp_path_factory, data, split):
    folder = tmp_path_factory.mktemp("fuzz")
    for name, rows in SPLITS.items():
        (folder / f"{name}.tsv").write_bytes(HEAD.encode() + data if name == split else rows.encode())
    try:
        prepare("ir-benchmark", folder, folder / "set", validation=0)
    except DataError as error:
        assert "\n" not in str(error)
