"""Recipes that are shipped with the package."""

import pytest
import yaml

from songrank.losses.registry import LOSSES
from songrank.training.config.recipe import Recipe
from songrank.training.config.recipe_files import load_recipe
from songrank.training.config.yaml_text import shipped_recipes

DATA_SETS = """movielens-100k movielens-1m movielens-20m netflix mslr-web30k yahoo-ltr mq2008 mq2007-agg eurlex-4k
wiki10-31k eurlex-4k-text wiki10-31k-text demo quick recommendation neumf movielens-1m-sequences sequences histories
search labelling labelling-text"""
WITHOUT_LOSS = {"auto", "ease"}


def test_there_is_one_for_each_set_of_the_paper_and_for_ones_own(songrank):
    listed = songrank("recipes")
    assert listed.returncode == 0
    assert {line.split()[0] for line in listed.stdout.splitlines()} >= set(DATA_SETS.split())
    assert set(shipped_recipes()) == set(DATA_SETS.split()) | WITHOUT_LOSS


@pytest.mark.parametrize("name", DATA_SETS.split())
def test_each_serves_every_loss_and_names_its_preparation(songrank, name):
    text = songrank("recipes", name).stdout
    values = yaml.safe_load(text)
    assert values["prepare"].startswith("songrank data prepare ")
    assert f"-o {values['data']}" in values["prepare"]
    assert set(values.get("losses", {})) <= set(LOSSES)
    for loss in LOSSES:
        assert load_recipe(name, [f"loss={loss}"]).loss["name"] == loss


def test_the_papers_numbers_are_in_them():
    for name, gamma, k, queries in (
        ("movielens-20m", 0.1, 300, 256),
        ("netflix", 0.3, 300, 256),
        ("mslr-web30k", 0.3, 10, 64),
        ("yahoo-ltr", 0.3, 10, 64),
    ):
        song, top = load_recipe(name), load_recipe(name, ["loss=k-song"])
        assert (song.loss["gamma"], top.loss["gamma"], top.loss["k"], song.batch.queries) == (gamma, gamma, k, queries)
    recommender, search = load_recipe("movielens-20m"), load_recipe("mslr-web30k")
    assert (recommender.warm_up.epochs, recommender.fine_tuning.epochs) == (20, 120)
    assert (recommender.fine_tuning.learning_rate, recommender.fine_tuning.decay) == (4e-4, {60: 0.25})
    assert (search.warm_up.epochs, search.fine_tuning.decay, search.batch.length) == (100, {50: 0.1}, 100)


FORMER = "data: x\nmodel: neumf\nfine_tuning: {epochs: 1, average: 0.9}\nlosses: {bce: {fine_tuning: {average: 0.8}}}\n"


@pytest.mark.parametrize(
    ("source", "changes", "decay"),
    [
        ("file", [], 0.9),
        ("file", ["loss=bce"], 0.8),
        ("file", ["fine_tuning.average=0.7"], 0.7),
        ("file", ["fine_tuning.ema_decay=0.7"], 0.7),
        ("file", ["fine_tuning={average: 0.7}"], 0.7),
        ("movielens-1m", ["fine_tuning.average=0.7"], 0.7),
        ("movielens-1m", ["fine_tuning.average=null"], None),
    ],
)
def test_the_former_key_of_the_ema_is_read_with_one_warning(tmp_path, source, changes, decay):
    (tmp_path / "file").write_text(FORMER)
    warnings = []
    recipe = load_recipe(str(tmp_path / source) if source == "file" else source, changes, warnings.append)
    assert recipe.fine_tuning.ema_decay == decay
    assert warnings == ["fine_tuning.average is now fine_tuning.ema_decay"]


def test_finished_runs_with_the_former_key_are_read_without_a_warning(tmp_path):
    now = load_recipe("movielens-1m").model_dump(mode="json")
    for stage in ("warm_up", "fine_tuning"):
        now[stage]["average"] = now[stage].pop("ema_decay")
    assert Recipe.read(now) == load_recipe("movielens-1m")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(now))
    warnings = []
    assert load_recipe(str(tmp_path), [], warnings.append) == load_recipe("movielens-1m")
    assert warnings == []


def test_both_names_of_a_key_are_rejected(tmp_path):
    (tmp_path / "file").write_text(FORMER.replace("average: 0.9", "average: 0.9, ema_decay: 0.9"))
    with pytest.raises(ValueError, match=r"unknown recipe key 'fine_tuning.average'; expected one of"):
        load_recipe(str(tmp_path / "file"))
