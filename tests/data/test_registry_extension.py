"""A new reader is one function with its options and one registry entry; everything else finds it by its name."""

import json
from pathlib import Path

import numpy as np
import pytest
from pydantic import Field

from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.data import open_dataset, prepare
from songrank.data.preparation.interaction_log import Interactions, to_catalogue
from songrank.data.preparation_options import RatingOptions
from songrank.data.registry import KINDS, Kind
from songrank.io.source import find_sources
from songrank_command import main


class VoteOptions(RatingOptions):
    """The reader's own options, beside those of all interaction logs."""

    separator: str = Field(">", description="between a user and an item")


def read_votes(source, options, job, scratch):
    """Lines such as ``3>17``: user 3 voted for item 17."""
    rows = []
    for block in find_sources(source, ["*.votes"], "file of votes")[0].blocks(job):
        for line, text in block.texts():
            user, _, item = text.partition(options.separator)
            if not (user.isdigit() and item.isdigit()):
                block.fail(f"the line is {text!r}", "expected user>item", line)
            rows.append((int(user), int(item)))
    user, item = np.array(rows).T
    users, items = Ids.of(user), Ids.of(item)
    return to_catalogue(Interactions(users.find(user).numpy(), users, items.find(item).numpy(), items), options, job)


ENTRY = Kind(
    "votes",
    "recommendation",
    "One vote a line",
    "a file of votes",
    f"{__name__}:read_votes",
    f"{__name__}:VoteOptions",
)


@pytest.fixture
def votes(tmp_path, monkeypatch):
    monkeypatch.setitem(KINDS, ENTRY.name, ENTRY)
    file = tmp_path / "week.votes"
    file.write_text("".join(f"{user}>{10 * user + item}\n" for user in (3, 8) for item in range(4)))
    return file


def command(monkeypatch, *words):
    monkeypatch.setattr("sys.argv", ["songrank", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


def test_the_new_reader_prepares_a_data_set(votes, tmp_path):
    dataset = prepare("votes", votes, tmp_path / "set")
    assert list(dataset.query_ids) == [3, 8]
    assert [dataset.item_ids[x] for x in dataset["test"].item] == [33, 83]
    assert dataset.info["made"]["options"]["separator"] == ">"
    with pytest.raises(DataError, match=r"week\.votes, line 1: the line is '3>30'; expected user>item"):
        prepare("votes", votes, tmp_path / "other", separator=":")


def test_the_command_knows_the_new_reader(votes, tmp_path, monkeypatch, capsys):
    assert command(monkeypatch, "data", "list") == 0
    assert "One vote a line" in capsys.readouterr().out
    assert command(monkeypatch, "data", "list", "votes") == 0
    assert "between a user and an item" in capsys.readouterr().out
    words = ("data", "prepare", "votes", votes, "--holdout", 1, "--separator", ">", "-o", tmp_path / "set")
    assert command(monkeypatch, *words) == 0
    assert open_dataset(tmp_path / "set").num_pairs == 8
    assert json.loads(Path(tmp_path / "set" / "dataset.json").read_text())["name"] == "votes"
