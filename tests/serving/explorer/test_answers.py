"""Answers of the explorer against the models themselves."""

import json

import pytest
import torch

from songrank.core.errors import UserError
from songrank.models import SequenceModel
from songrank.serving import open_model, recommend, recommend_after
from songrank.serving.explorer import Explorer
from songrank.training.trained_model import write_model

from .conftest import ATTACK, ITEMS, LENGTH


def ids(items):
    return [item["id"] for item in items]


def best_after(folder, history, k, barred):
    """Items by the score of the model after a history, in a loop."""
    numbers = folder.item_ids.find(history).tolist()
    with torch.no_grad():
        scores = folder.model.score_all(torch.tensor([numbers[-LENGTH:]]))[0].tolist()
    order = sorted(range(len(scores)), key=lambda at: (-scores[at], at))
    return [folder.item_ids[at] for at in order if folder.item_ids[at] not in barred][:k]


def test_the_start_tells_the_models(explorer):
    start = explorer.start()
    assert start["user"] == "<i>u</i>"
    assert start["named"]
    sizes = {"users": 16, "items": len(ITEMS)}
    assert start["models"] == [
        {"title": "sequence", "model": "sequence", "reads": "histories", **sizes},
        {"title": "neumf", "model": "neumf", "reads": "ids", **sizes},
    ]


@pytest.mark.parametrize("with_seen", [False, True])
def test_recommendations_are_those_of_the_library(explorer, films, with_seen):
    for user, log in films.log.items():
        answers = explorer.recommend(user, 6, with_seen=with_seen)
        json.dumps(answers)
        for answer, folder in zip(answers, films.folders.values(), strict=True):
            batch = next(recommend(folder, [user], 6, exclude_seen=not with_seen))
            assert ids(answer["items"]) == folder.item_ids[batch.item]
            assert [item["score"] for item in answer["items"]] == batch.score.tolist()
            assert answer["known"]
            assert not answer["notes"]
            assert answer["seen"] == len(log)
        assert ids(answers[0]["history"]) == log[-LENGTH:]
        assert sorted(ids(answers[1]["history"])) == sorted(log)
        assert (answers[0]["ordered"], answers[1]["ordered"]) == (True, False)


def test_names_are_beside_the_ids(explorer):
    history = explorer.recommend("u1")[0]["history"]
    assert [(item["id"], item["name"]) for item in history[1:3]] == [("i3", ATTACK), ("i5", "Film 5")]
    assert explorer.items("i7") == [{"id": "i7", "name": None}]


def test_another_history_changes_the_scores_and_the_seen_items(explorer, films):
    folder, log = films.folders["sequence"], films.log["u1"]
    changed = [*log[1:], "i9"]
    first, second = explorer.recommend("u1", 8, changed)
    assert first["changed"]
    assert ids(first["items"]) == best_after(folder, changed, 8, set(changed))
    assert ids(first["items"]) != ids(explorer.recommend("u1", 8)[0]["items"])
    removed = explorer.recommend("u1", len(ITEMS), changed)[0]
    assert log[0] in ids(removed["items"])  # no longer seen
    assert "i9" not in ids(removed["items"])
    assert not second["changed"]
    assert second["notes"] == ["this model reads user ids: a changed history changes nothing"]
    assert ids(second["items"]) == ids(explorer.recommend("u1", 8)[1]["items"])


def test_seen_items_before_the_stored_history_stay_seen(explorer, films):
    user = next(user for user, log in films.log.items() if len(log) > LENGTH + 1)
    log = films.log[user]
    found = explorer.recommend(user, len(ITEMS), log[-LENGTH + 1 :])[0]
    assert set(ITEMS) - set(ids(found["items"])) == set(log) - {log[-LENGTH]}


def test_the_unchanged_history_gives_what_the_user_gets(explorer, films):
    for user, log in films.log.items():
        first = explorer.recommend(user, 5, log[-LENGTH:])[0]
        assert ids(first["items"]) == ids(explorer.recommend(user, 5)[0]["items"])


def test_an_unknown_user_gets_popular_items_and_may_have_a_history(explorer, films):
    first, second = explorer.recommend("nobody", 5)
    for answer in (first, second):
        assert not answer["known"]
        assert answer["history"] == []
        assert answer["notes"] == ["unknown user: the most popular items"]
    cold = explorer.recommend("nobody", 5, ["i3", "i9"])[0]
    folder = films.folders["sequence"]
    batch = next(recommend_after(folder, folder.histories.take([0]), 5))
    assert len(batch.item) == 5
    assert ids(cold["items"]) == best_after(folder, ["i3", "i9"], 5, {"i3", "i9"})


def test_searches_find_prefixes_of_users_and_texts_in_names(explorer):
    assert explorer.users("u1") == ["u1", "u10", "u11"]
    assert explorer.users("<") == ["<i>u</i>"]
    assert explorer.users("x") == []
    assert ids(explorer.items("fIlM 2")) == ["i2", "i20", "i21", "i22", "i23"]
    assert ids(explorer.items("=1+1")) == ["=1+1"]
    assert len(explorer.items("film")) == 20


def test_whole_numbers_beyond_those_of_javascript_keep_their_digits(tmp_path):
    from songrank.data import prepare

    big = 2**62 + 1
    rows = "".join(f"{big + user},{big + (user + at) % 5},{at}\n" for user in range(4) for at in range(3))
    (tmp_path / "log.csv").write_text("user,item,time\n" + rows)
    data = prepare("interactions", tmp_path / "log.csv", tmp_path / "data")
    sizes = {"dim": 8, "blocks": 1, "heads": 2, "length": 3, "dropout": 0.0}
    write_model(tmp_path / "model", SequenceModel(data.num_items, **sizes), {"name": "sequence", **sizes}, data)
    found = Explorer({"m": open_model(tmp_path / "model")})
    assert found.users(str(big)[:5])[0] == str(big)
    answer = found.recommend(str(big), 2, [str(big + 4), str(big)])[0]
    assert answer["known"]
    assert ids(answer["history"]) == [str(big + at) for at in range(3)]
    assert set(ids(answer["items"])) <= {str(big + at) for at in range(1, 4)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "k is 0; expected 1 to 200"),
        ({"k": 201}, "k is 201; expected 1 to 200"),
        ({"history": ["i3", "<script>"]}, "unknown item '<script>'; choose one of the items"),
        ({"history": ["i3"] * 10_001}, "the history has 10,001 items; expected at most 10,000"),
    ],
)
def test_a_wrong_question_is_named(explorer, change, message):
    with pytest.raises(UserError, match=message):
        explorer.recommend(**{"user": "u1", **change})
