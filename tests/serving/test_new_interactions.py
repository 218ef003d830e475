"""New interactions of known users, without training."""

import numpy as np
import pandas as pd
import pytest

from songrank import Recommender
from tests.estimators.small_recommender import NAMES, clicks, small

SEQUENCE = {"model.dim": 4, "model.blocks": 1, "model.heads": 1, "model.length": 5, "warm_up.epochs": 1}


def rows(user, items, first=100):
    table = pd.DataFrame({"who": user, "what": items})
    return table.assign(stars=5, when=range(first, first + len(items)))


def seen(model, user):
    number = int(model.folder_.query_ids.find([user])[0])
    start, stop = model.folder_.seen.offsets[number : number + 2].tolist()
    return {model.folder_.item_ids[x] for x in model.folder_.seen["item"][start:stop].tolist()}


def history(model, user):
    number = int(model.folder_.query_ids.find([user])[0])
    start, stop = model.folder_.histories.offsets[number : number + 2].tolist()
    return [model.folder_.item_ids[x] for x in model.folder_.histories["item"][start:stop].tolist()]


@pytest.fixture(scope="module")
def sequence():
    table = clicks()
    model = Recommender(model="sequence", epochs=1, options=SEQUENCE, verbose=0, device="cpu", **NAMES).fit(table)
    return model, table


def test_items_are_seen_and_scores_of_an_id_model_stay(tmp_path):
    model, table = small(**NAMES).fit(clicks()), clicks()
    before = model.predict(table)
    own = model.recommend(["user 0"], k=2)["what"].tolist()
    model.partial_fit(rows("user 0", own), epochs=0)
    np.testing.assert_array_equal(model.predict(table), before)
    assert set(own) <= seen(model, "user 0")
    assert not set(own) & set(model.recommend(["user 0"], k=25)["what"])
    assert seen(model, "user 7") == set(table[table.who == "user 7"].what)
    model.save(tmp_path / "model")
    assert seen(Recommender.load(tmp_path / "model"), "user 0") == seen(model, "user 0")


def test_histories_are_as_after_a_fit_on_all_rows(sequence, tmp_path):
    model, table = sequence
    model.save(tmp_path / "model")
    model = Recommender.load(tmp_path / "model")
    old = history(model, "user 0")
    more = rows("user 0", ["item 3", "item 4", "item 3", old[-1]])
    model.partial_fit(more, epochs=0)
    whole = Recommender(model="sequence", epochs=1, options=SEQUENCE, verbose=0, device="cpu", **NAMES)
    whole.fit(pd.concat([table, more]))
    for user in ("user 0", "user 7"):
        assert history(model, user) == history(whole, user)
        assert seen(model, user) == seen(whole, user)
    one = model.recommend(["user 0"], k=3)
    other = model.recommend_for(pd.concat([table, more])[lambda t: t.who == "user 0"], k=3)
    assert one["what"].tolist() == other["what"].tolist()


def test_rows_of_new_users_and_items_wait_for_the_next_training(sequence, tmp_path, capsys):
    sequence[0].save(tmp_path / "model")
    model = Recommender.load(tmp_path / "model").set_params(verbose=1)
    table = pd.concat([rows("nobody", ["item 1"]), rows("user 0", ["nothing", "item 2"])])
    model.partial_fit(table, epochs=0)
    assert capsys.readouterr().err == "1 row added\n2 rows of new users or items are kept for the next training\n"
    model.partial_fit(rows("user 1", ["item 5"]), epochs=1)
    assert "nothing" in list(model.folder_.item_ids)
    assert model.recommend(["nobody"], k=1)["source"].tolist() == ["model"]


def test_nothing_is_trained(sequence, tmp_path, monkeypatch):
    sequence[0].save(tmp_path / "model")
    model = Recommender.load(tmp_path / "model")
    monkeypatch.setattr(Recommender, "_learn", lambda *given, **more: pytest.fail("trained"))
    model.partial_fit(rows("user 0", ["item 2"]), epochs=0)
