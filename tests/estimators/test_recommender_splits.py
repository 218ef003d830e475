"""The Recommender with held-out sets of the caller."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from songrank.core.errors import UserError
from songrank.data import open_dataset
from songrank.estimators import Recommender
from tests.estimators.small_recommender import NAMES, clicks, small


@pytest.fixture(scope="module")
def parts():
    """Training, validation and test rows; every user and item is in training."""
    table = clicks()
    place = table.groupby("who").cumcount()
    return table[place > 1], table[place == 1], table[place == 0]


@pytest.fixture(scope="module")
def fitted(parts, tmp_path_factory):
    train, validation, test = parts
    folder = tmp_path_factory.mktemp("fitted")
    return small(**NAMES, folder=str(folder)).fit(train, validation=validation, test=test)


def pairs(folder, split):
    dataset = open_dataset(f"{folder}/data")
    query, item, _ = dataset[split].unique_pairs()
    return {(dataset.query_ids[int(q)], dataset.item_ids[int(x)]) for q, x in zip(query, item, strict=True)}


def rows(frame):
    return set(zip(frame["who"], frame["what"], strict=True))


def test_these_sets_are_trained_on_and_evaluated(fitted, parts):
    for split, frame in zip(("train", "validation", "test"), parts, strict=True):
        assert pairs(fitted.folder, split) == rows(frame)
    assert set(fitted.evaluation_) == {"validation", "test"}
    assert set(fitted.best_score_) == {"validation"}
    metrics = list(fitted.evaluation_["test"].values)
    for split, frame in zip(("validation", "test"), parts[1:], strict=True):
        assert fitted.evaluation_[split].num_queries == 30
        if split == "test":  # evaluate excludes the items of all other splits
            again = fitted.evaluate(frame, metrics=metrics).values
            assert again == pytest.approx(fitted.evaluation_[split].values, abs=1e-6)


def test_a_test_set_alone_holds_nothing_else_out(parts, tmp_path):
    train, _, test = parts
    model = small(**NAMES, folder=str(tmp_path)).fit(train, test=test)
    assert set(model.evaluation_) == {"test"}
    assert pairs(tmp_path, "train") == rows(train)
    assert model.best_score_ == {}


def test_a_fraction_of_training_for_validation(parts, tmp_path):
    train, _, test = parts
    model = Recommender(**NAMES, epochs=1, verbose=0, options={"warm_up.epochs": 1, "batch.irrelevant": 5})
    model.set_params(folder=str(tmp_path)).fit(train, validation=0.2, test=test)
    assert model.recipe_.model["name"] == "matrix-factorisation"  # as with a random split
    cut = pairs(tmp_path, "validation")
    assert pairs(tmp_path, "train") == rows(train) - cut
    counts = train.groupby("who").size()
    for user, count in counts.items():
        assert sum(who == user for who, _ in cut) == int(count * 0.2 + 0.5)
    assert pairs(tmp_path, "test") == rows(test)


def test_unknown_users_and_items_are_reported(parts, capsys):
    train, _, test = parts
    strange = pd.DataFrame({"who": ["x", "user 1"], "what": ["item 1", "y"], "stars": 5, "when": 1})
    small(**NAMES, verbose=1).fit(train, test=pd.concat([test, strange, train[:3]]))
    line = "test: dropped 5 of 35 pairs: 2 of users or items unknown in training (1 user, 1 item), 3 also in training"
    assert line in capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("make", [pl.from_pandas, lambda frame: frame.to_dict("list")], ids=["polars", "dict"])
def test_any_kind_of_table(make, parts, fitted):
    train, validation, test = map(make, parts)
    model = small(**NAMES).fit(train, validation=validation, test=test)
    assert model.evaluation_["test"].values == fitted.evaluation_["test"].values


def test_arrays_and_labels_beside_the_table():
    draw = np.random.default_rng(0)
    pairs = np.stack([np.repeat(np.arange(20), 8), np.concatenate([draw.permutation(15)[:8] for _ in range(20)])], 1)
    y = draw.integers(1, 4, len(pairs))
    held = np.arange(len(pairs)) % 8 == 0
    model = small().fit(pairs[~held], y[~held], test=(pairs[held], y[held]))
    split = np.where(held, "test", "train")
    table = pl.DataFrame({"user": pairs[:, 0], "item": pairs[:, 1], "label": y, "part": split})
    same = small(data_options={"split_column": "part"}).fit(table)
    assert model.evaluation_["test"].values == same.evaluation_["test"].values
    with pytest.raises(UserError, match=r"test is a ndarray; expected \(table, labels\), since y is given"):
        small().fit(pairs[~held], y[~held], test=pairs[held])
    with pytest.raises(UserError, match="test is a tuple; expected a table"):
        small().fit(pairs[~held], test=(pairs[held], y[held]))


@pytest.mark.parametrize("model", ["sequence", "history"])
def test_models_of_histories(model, parts):
    train, validation, test = parts
    options = {"model.dim": 8, "model.length": 6, "warm_up.epochs": 1, "batch.irrelevant": 5}
    options = options if model == "sequence" else {"model.dim": 8, "warm_up.epochs": 1, "batch.irrelevant": 5}
    found = Recommender(**NAMES, model=model, epochs=1, options=options, verbose=0, device="cpu")
    found.fit(train, validation=validation, test=test)
    assert found.evaluation_["test"].num_queries == 30
    without = [frame.drop(columns="when") for frame in parts]
    names = {**NAMES, "time": None}
    found = Recommender(**names, model=model, epochs=1, options=options, verbose=0, device="cpu")
    found.fit(without[0], validation=0.2, test=without[2])
    assert found.evaluation_["validation"].num_queries > 0


def test_more_interactions_are_for_training(fitted, parts, tmp_path):
    train, validation, test = parts
    fitted.save(tmp_path / "saved")
    again = Recommender.load(tmp_path / "saved").set_params(verbose=0, folder=str(tmp_path / "more"))
    new = pd.DataFrame({"who": ["new"] * 3, "what": ["item 1", "item 2", "y"], "stars": 5, "when": 99})
    again.partial_fit(new, epochs=1)
    assert pairs(tmp_path / "more", "train") == rows(train) | rows(new)
    assert pairs(tmp_path / "more", "validation") == rows(validation)
    assert pairs(tmp_path / "more", "test") == rows(test)
    assert torch.isfinite(torch.tensor(again.evaluation_["test"].values["ndcg@10"]))


MISTAKES = {
    "a fraction of 1": (1.0, None, {}, "validation is 1.0; expected a fraction from 0 to below 1, or a table"),
    "a path": ("v.csv", None, {}, "validation: the table is 'v.csv'; read the file first"),
    "other columns": ({"who": [1]}, None, {}, "validation: cannot find the item column|has no item column 'what'"),
    "another split": (0.1, None, {"split": "time"}, "expected split given with split_column"),
    "a column, too": (
        0.1,
        None,
        {"split_column": "part"},
        "split_column is 'part'; expected none with validation or test",
    ),
    "numbers for texts": (
        None,
        {"who": ["user 1"], "what": ["item 1"], "stars": [5], "when": ["2024-01-01"]},
        {},
        "test: columns are .* as for training",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line(mistake, parts):
    validation, test, options, message = MISTAKES[mistake]
    with pytest.raises(UserError, match=message) as caught:
        small(**NAMES, data_options=options).fit(parts[0], validation=validation, test=test)
    assert "\n" not in str(caught.value)
