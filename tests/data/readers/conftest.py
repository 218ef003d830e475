"""Fixtures that tests of several modules share."""

import pytest

from songrank.data import prepare
from tests.data.readers.small_logs import ROWS, arrays


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("expected") / "set"
    dataset = prepare("interactions", ROWS, folder)
    assert list(dataset.query_ids) == ["u1", "u2"]
    assert list(dataset.item_ids) == ["a,b", "b", "c", "ä"]
    assert dataset.item_ids[dataset["train"].item] == ["b", "c"]
    assert dataset.item_ids[dataset["validation"].item] == ["c", "b"]
    assert dataset.item_ids[dataset["test"].item] == ["a,b", "ä"]
    assert dataset["test"].label.tolist() == [5.0, 1.0]
    return arrays(folder)
