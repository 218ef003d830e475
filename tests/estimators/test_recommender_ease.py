"""``Recommender(model="ease")``: known users, new users, more interactions, saving and contradictions."""

import random

import pytest

from songrank import Recommender
from songrank.core.errors import UserError


def two_tastes(users=60, seed=0):
    """Users of two tastes with 12 of 30 items each."""
    rng = random.Random(seed)
    rows = [(f"u{u}", f"i{(u % 2) * 30 + item}") for u in range(users) for item in rng.sample(range(30), 12)]
    return {"user": [user for user, _ in rows], "item": [item for _, item in rows]}


def taste(item):
    return int(item[1:]) // 30


@pytest.fixture(scope="module")
def fitted():
    return Recommender(model="ease", verbose=0).fit(two_tastes())


def test_all_recommendations_are_of_the_right_taste(fitted):
    found = fitted.recommend(k=10)
    assert len(found["user"]) == 600
    assert all(taste(item) == int(user[1:]) % 2 for user, item in zip(found["user"], found["item"], strict=True))
    assert fitted.best_score_["validation"]["ndcg@10"] == fitted.history_[-1]["validation ndcg@10"]
    assert sorted(fitted.evaluation_) == ["test", "validation"]


def test_new_users_are_answered_from_their_history(fitted):
    found = fitted.recommend_for({"user": ["new", "new", "other"], "item": ["i31", "i40", "i2"]}, k=5)
    assert [taste(item) for item in found["item"]] == [1] * 5 + [0] * 5
    assert not {"i31", "i40", "i2"} & set(found["item"])


def test_more_interactions_are_fitted_with_all_others(tmp_path):
    model = Recommender(model="ease", verbose=0).fit(two_tastes(40))
    model.save(tmp_path / "saved")
    again = Recommender.load(tmp_path / "saved")
    more = {"user": ["late"] * 4, "item": ["i1", "i2", "i3", "new item"]}
    for one in (model, again):
        one.partial_fit(more)
    found = [{name: list(column) for name, column in one.recommend(["late"], k=5).items()} for one in (model, again)]
    assert found[0] == found[1]
    assert all(taste(item) == 0 for item in found[0]["item"] if item != "new item")
    assert "new item" in set(model.recommend(["u0"], k=60)["item"])


def test_epochs_and_losses_contradict_a_closed_form():
    with pytest.raises(UserError, match=r"fine_tuning.epochs is 5; expected 0: model 'ease' is fitted in closed form"):
        Recommender(model="ease", epochs=5).fit(two_tastes())
    with pytest.raises(UserError, match=r"loss is 'bpr'; expected none"):
        Recommender("bpr", "ease").fit(two_tastes())
