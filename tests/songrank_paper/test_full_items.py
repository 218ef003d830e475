"""The figure of training on all items."""

import pytest
import torch

from songrank.training.config.recipe import Recipe
from songrank.training.run import Run
from songrank_paper.full_items import FigFullItems, likelihood
from songrank_paper.protocol import SetProtocol
from tests.songrank_paper.small_training import TINY, chosen_first, do, plan, recipes


def test_full_items_training_has_no_noise_to_average(small):
    settings, folder = small
    found, findings = do(FigFullItems(TINY), settings, folder)
    assert [line.get_label() for line in findings.figures["likelihood"].axes[0].get_lines()] == [
        "full items",
        "mini-batch, γ = 1",
        "moving average, γ = 0.1",
    ]
    values = {row[1]: row for row in findings.tables["likelihood"].rows}
    assert all(0 < row[5] < 2 * torch.tensor(30.0).log() for row in values.values())
    each = SetProtocol(settings, "movielens-1m", TINY)
    full = recipes(FigFullItems(TINY).panels(each, found)["movielens-1m (synthetic)"])["full items"][0]
    assert (full["batch"]["irrelevant"], full["loss"]["gamma"]) == ("all", 1.0)


def test_a_warm_up_by_likelihood_that_diverged_is_said(small):
    settings = plan((0, 1), movielens_1m=small[0].data["movielens-1m"])
    figure, each = FigFullItems(TINY), SetProtocol(settings, "movielens-1m", TINY)
    found = chosen_first(figure, each)
    while missing := [cell for cell in figure.cells(settings, found) if cell.key not in found]:
        for cell in missing:
            lost = cell.name == "movielens-1m: warm-up by likelihood, full items, seed 1"
            found[cell.key] = {"diverged": "step 3"} if lost else {"curve": [[1, 3.0], [2, 2.0]]}
    remarks = figure.show(settings, found).remarks
    said = [remark for remark in remarks if "diverged" in remark]
    assert said == ["movielens-1m (synthetic), warm-up: full items diverged with 1 of 2 seeds."]


def test_the_likelihood_is_that_of_each_training_pair_among_all_items(small, tmp_path):
    settings, _ = small
    each = SetProtocol(settings, "movielens-1m", TINY)
    cell = each.warm_up(0).cell
    recipe = Recipe.read({**cell.options["recipe"], "data": cell.where["path"], "device": "cpu"})
    run = Run.begin(recipe, tmp_path / "run", splits=())
    query, item, _ = each.dataset["train"].unique_pairs()
    scores = run.trainer.model.eval().score_all(torch.arange(40)).detach().double()
    by_query = []
    for user in query.unique().tolist():
        own = [float(scores[user].exp().sum().log() - scores[user, i]) for i in item[query == user].tolist()]
        by_query.append(sum(own) / len(own))
    assert likelihood(run) == pytest.approx(sum(by_query) / len(by_query), rel=1e-9)
