"""Your own splits, from files to an evaluation, as on the command line."""

import json
import math

import pytest
import torch

from songrank.data import open_dataset
from songrank.serving.open import open_model
from songrank.serving.recommendations import score_users

TRAIN = [(user, (3 * user + step) % 17) for user in range(12) for step in (0, 1, 2, 4, 7)]
TEST = [(user, (3 * user + step) % 17) for user in range(0, 12, 2) for step in (3, 5, 9)]
QUICK = ["model=matrix-factorisation", "warm_up.epochs=1", "fine_tuning.epochs=1", "batch.irrelevant=4", "device=cpu"]


@pytest.fixture
def prepared(songrank, tmp_path):
    for name, rows in (("train", TRAIN), ("test", [*TEST, (0, 99), (77, 1), TRAIN[0]])):
        text = "".join(f"{user}\t{item}\n" for user, item in rows)
        (tmp_path / f"{name}.tsv").write_text("user\titem\n" + text)
    files = ("--train", tmp_path / "train.tsv", "--test", tmp_path / "test.tsv", "--validation", 0.2)
    made = songrank("data", "prepare", "interactions", *files, "-o", tmp_path / "set")
    assert made.returncode == 0, made.stderr
    note = "test: dropped 3 of 21 pairs: 2 of users or items unknown in training (1 user, 1 item), 1 also in training"
    assert note in made.stdout.splitlines()
    assert note in songrank("data", "show", tmp_path / "set").stdout.splitlines()
    return tmp_path / "set"


def test_ndcg_of_the_test_file_with_known_items_masked(prepared, songrank, tmp_path):
    words = ("recommendation", f"data={prepared}", *QUICK, 'evaluation.metrics=["ndcg@5"]')
    done = songrank("train", *words, "-o", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "run" / "evaluation" / "test.json").read_text())
    assert set(found["metrics"]) == {"ndcg@5"}

    users = sorted({user for user, _ in TRAIN})
    scores = score_users(open_model(tmp_path / "run", "cpu"), torch.arange(len(users))).double().tolist()
    items = list(open_dataset(prepared).item_ids)
    values = []
    for user in sorted({user for user, _ in TEST}):
        relevant = {item for who, item in TEST if who == user}
        known = {item for who, item in TRAIN if who == user}
        order = sorted((-score, item) for item, score in zip(items, scores[user], strict=True) if item not in known)
        gain = sum(1 / math.log2(place + 2) for place, (_, item) in enumerate(order[:5]) if item in relevant)
        values.append(gain / sum(1 / math.log2(place + 2) for place in range(min(5, len(relevant)))))
    assert found["metrics"]["ndcg@5"] == pytest.approx(sum(values) / len(values), abs=1e-6)


def test_splits_by_column(songrank, tmp_path):
    rows = [*((*pair, "train") for pair in TRAIN), *((*pair, "dev") for pair in TEST)]
    text = "".join(f"{user},{item},{part}\n" for user, item, part in rows)
    (tmp_path / "log.csv").write_text("user,item,part\n" + text)
    made = songrank(
        "data", "prepare", "interactions", tmp_path / "log.csv", "--split-column", "part", "-o", tmp_path / "set"
    )
    assert "; splits 'part'" in made.stdout
    splits = {name: part.num_pairs for name, part in open_dataset(tmp_path / "set").items()}
    assert splits == {"train": len(TRAIN), "validation": len(TEST)}


def test_an_output_directory_with_a_file_of_a_split_is_not_replaced(prepared, songrank, tmp_path):
    (tmp_path / "train.tsv").rename(prepared / "train.tsv")
    words = ("--train", prepared / "train.tsv", "-o", prepared, "--overwrite")
    refused = songrank("data", "prepare", "interactions", *words)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "contains the source; choose another output directory" in refused.stderr
    assert (prepared / "train.tsv").exists()
