"""Similar items and users: cosines of vectors, weights of EASE, and answers of the command and the estimator."""

import random

import pandas as pd
import polars as pl
import pytest
import torch

from songrank import models
from songrank.core.errors import UserError
from songrank.data import prepare
from songrank.models import Blend, Ensemble
from songrank.serving import open_model, similar_items, similar_users
from songrank.serving.recommendations import Recommendations
from songrank.training.trained_model import model_sizes, write_model
from tests.estimators.small_recommender import NAMES, clicks, small
from tests.serving.small_recommend_models import TITLES, USERS


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of users and films with vectors of both."""
    place, rng = tmp_path_factory.mktemp("films"), random.Random(1)
    log = [(user, title, time) for user in USERS for time, title in enumerate(rng.sample(TITLES, 8))]
    table = pl.DataFrame(log, schema=["userId", "item", "timestamp"], orient="row")
    dataset = prepare("interactions", table, place / "data")
    torch.manual_seed(0)
    section = {"name": "matrix-factorisation", "dim": 3}
    write_model(place / "model", models.create(**section, **model_sizes(dataset)), section, dataset)
    return place / "model"


def cosine(vectors):
    unit = vectors / vectors.norm(dim=1, keepdim=True)
    return unit @ unit.T


def rows(parts):
    """(position, item, score, rank) of all batches."""
    found = list(parts)
    assert all(isinstance(part, Recommendations) for part in found)
    columns = (torch.cat([getattr(part, name) for part in found]) for name in ("position", "item", "score", "rank"))
    return list(zip(*(column.tolist() for column in columns), strict=True))


def expected(similarity, asked, k):
    found = []
    for position, number in enumerate(asked):
        others = sorted((-float(value), at) for at, value in enumerate(similarity[number]) if at != number)[:k]
        found += [(position, at, pytest.approx(-value, abs=1e-5), rank) for rank, (value, at) in enumerate(others, 1)]
    return found


@pytest.mark.parametrize("at_once", [1, 2**24])
def test_items_and_users_of_a_dot_product_model_by_cosine(model, monkeypatch, at_once):
    monkeypatch.setattr("songrank.serving.recommendations._SCORES", {"cpu": at_once})
    folder = open_model(model)
    vectors = folder.model.item_vectors().detach()
    assert rows(similar_items(folder, None, 4)) == expected(cosine(vectors), range(len(TITLES)), 4)
    asked = [TITLES[7], TITLES[2]]
    numbers = folder.item_ids.find(asked).tolist()
    assert rows(similar_items(folder, asked, 99)) == expected(cosine(vectors), numbers, 29)
    with torch.no_grad():
        users = folder.model.query_vectors(torch.arange(len(USERS)))
    assert rows(similar_users(folder, USERS[3:5], 5)) == expected(cosine(users), [3, 4], 5)
    with pytest.raises(UserError, match="unknown item 'nothing'; expected items of the training data"):
        similar_items(folder, ["nothing"])
    with pytest.raises(UserError, match="k is 0"):
        similar_items(folder, None, 0)


def test_every_model_of_a_catalogue_has_a_similarity():
    torch.manual_seed(0)
    item = torch.tensor([1, 4])
    neumf = models.create("neumf", num_queries=3, num_items=6, dim=4, hidden=[4])
    both = torch.cat([neumf.item_product.weight, neumf.item_hidden.weight], 1)
    torch.testing.assert_close(neumf.item_similarity(item), cosine(both)[item])
    ease = models.create("ease", num_items=6)
    with torch.no_grad():
        ease.weight.normal_()
    torch.testing.assert_close(ease.item_similarity(item), ease.weight[item])
    factors = models.create("matrix-factorisation", num_queries=3, num_items=6, dim=4)
    joined = Ensemble([neumf, factors])
    mean = (neumf.item_similarity(item) + factors.item_similarity(item)) / 2
    torch.testing.assert_close(joined.item_similarity(item), mean)
    parts = [(one.item_similarity(item)) for one in (factors, ease)]
    parts = [(part - part.mean(1, keepdim=True)) / part.std(1, keepdim=True, correction=0) for part in parts]
    torch.testing.assert_close(
        Blend([factors, ease], [0.3, 0.7]).item_similarity(item), 0.3 * parts[0] + 0.7 * parts[1]
    )
    for name in ("history", "sequence", "two-tower", "lightgcn"):
        made = _create(name)
        torch.testing.assert_close(made.item_similarity(item), cosine(made.item_vectors())[item], msg=name)
    with pytest.raises(NotImplementedError, match="no similarity of items"):
        models.create("mlp", num_features=3).item_similarity(item)


def _create(name):
    sizes = {"num_items": 6} if name in ("history", "sequence") else {"num_queries": 3, "num_items": 6}
    if name == "lightgcn":
        sizes["edges"] = torch.tensor([[0, 1, 2], [1, 4, 5]])
    return models.create(name, dim=4, **sizes).eval()


def test_a_model_without_vectors_of_users_says_which_have_them():
    fitted = small(**NAMES).fit(clicks())
    found = fitted.similar_items(["item 3"], k=2)
    assert list(found.columns) == ["what", "similar_what", "score", "rank"]
    with pytest.raises(UserError, match="contains neumf, which has no vectors of users; train matrix-factorisation"):
        fitted.similar_users()


def test_the_estimator_answers_in_its_own_ids_and_after_loading(tmp_path):
    table = clicks()
    table["what"] = table["what"].str.removeprefix("item ").astype(int)
    model = small(**NAMES, model="matrix-factorisation", options={"model.dim": 4}).fit(table)
    found = model.similar_items([3, 4], k=2)
    assert found["what"].tolist() == [3, 3, 4, 4]
    assert (found["what"] != found["similar_what"]).all()
    assert set(found["similar_what"]) <= set(table["what"])
    model.save(tmp_path)
    again = type(model).load(tmp_path, device="cpu")
    pd.testing.assert_frame_equal(again.similar_items([3, 4], k=2), found)
    users = again.similar_users(pd.DataFrame({"who": ["user 2"]}), k=3)
    assert users["who"].tolist() == ["user 2"] * 3
    assert users["rank"].tolist() == [1, 2, 3]
    assert len(again.similar_items(k=1)) == table["what"].nunique()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_command_writes_items_with_titles(songrank, model, tmp_path, suffix):
    evil = ['=HYPERLINK("http://x")', "<script>alert(1)</script>", "\x1b[2Jgone\n"]
    names = pl.DataFrame({"item": TITLES[:29], "title": [*evil, *(f"T {number}" for number in range(26))]})
    names.write_parquet(tmp_path / "names.parquet")
    pl.DataFrame({"item": [TITLES[1], TITLES[0], TITLES[1]]}).write_csv(tmp_path / "asked.csv")
    words = ["similar", model, tmp_path / "asked.csv", "-o", tmp_path / f"s{suffix}", "-k", 29, "--device", "cpu"]
    done = songrank(*words, "--names", tmp_path / "names.parquet")
    assert done.returncode == 0, done.stderr
    assert "3 rows have 2 distinct items; each is answered once" in done.stderr
    assert "1 of 30 items of the model have no name" in done.stderr
    assert done.stdout.startswith("2 items; wrote 58 rows")
    table = (pl.read_csv if suffix == ".csv" else pl.read_parquet)(tmp_path / f"s{suffix}")
    assert table.columns == ["item", "title", "similar_item", "similar_title", "score", "rank"]
    folder = open_model(model)
    wanted = rows(similar_items(folder, [TITLES[1], TITLES[0]], 29))
    assert table["similar_item"].to_list() == folder.item_ids[[item for _, item, _, _ in wanted]]
    told = dict(zip(table["similar_item"], table["similar_title"].fill_null(""), strict=True))
    told |= dict(zip(table["item"], table["title"], strict=True))
    assert told[TITLES[0]] == ("'" if suffix == ".csv" else "") + evil[0]
    assert told[TITLES[1]] == evil[1]
    assert told[TITLES[2]] == " [2Jgone "
    assert told[TITLES[29]] == ""
    assert told[TITLES[9]] == "T 6"


def test_the_command_writes_users_and_reports_mistakes_in_one_line(songrank, model, tmp_path):
    done = songrank("similar", model, "--users", "-o", tmp_path / "u.csv", "-k", 2)
    assert done.returncode == 0, done.stderr
    assert pl.read_csv(tmp_path / "u.csv").columns == ["userId", "similar_userId", "score", "rank"]
    (tmp_path / "bad.csv").write_text("item,title\nnothing,x\n")
    for words, message in (
        ([tmp_path / "bad.csv"], "unknown item 'nothing'"),
        (["--users", "--names", tmp_path / "bad.csv"], "--names has titles of items"),
        (["--column", "x"], "--column needs INPUT"),
        (["--names", tmp_path / "bad.csv"], "has a name for none of the 30 items"),
    ):
        done = songrank("similar", model, *words, "-o", tmp_path / "v.csv")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert message in done.stderr
        assert not (tmp_path / "v.csv").exists()


def test_recommendations_with_titles(songrank, model, tmp_path):
    pl.DataFrame({"id": TITLES, "name": [f"T {number}" for number in range(30)], "year": 1}).write_csv(
        tmp_path / "n.csv"
    )
    done = songrank("recommend", model, "--names", tmp_path / "n.csv", "-o", tmp_path / "b.parquet", "-k", 3)
    assert done.returncode == 0, done.stderr
    table = pl.read_parquet(tmp_path / "b.parquet")
    assert table.columns == ["userId", "item", "title", "score", "rank", "source"]
    assert table["title"].to_list() == [f"T {TITLES.index(item)}" for item in table["item"]]
    pl.DataFrame({"id": TITLES, "a": "x", "b": "y"}).write_csv(tmp_path / "n.csv")
    done = songrank("recommend", model, "--names", tmp_path / "n.csv", "-o", tmp_path / "c.parquet")
    assert "cannot find the name column among 'id', 'a', 'b'; pass --name-column" in done.stderr
    words = ["--name-column", "b", "--item-column", "id", "-k", 1]
    done = songrank("recommend", model, "--names", tmp_path / "n.csv", "-o", tmp_path / "c.parquet", *words)
    assert set(pl.read_parquet(tmp_path / "c.parquet")["title"]) == {"y"}
