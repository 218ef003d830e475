"""The estimate for histories with a new item, beside histories that were cut by hand."""

import pytest
import torch

from songrank.analysis.last_items import with_new_items, without_last
from songrank.core.csr import CSR
from songrank.metrics import evaluate_catalogue
from songrank.models import Blend, Ease, MatrixFactorisation, UserInput
from songrank.models.model_folder import ModelFolder
from songrank.training.config.recipe_files import load_recipe
from tests.baselines.small_log import prepared


@pytest.fixture
def dataset(tmp_path):
    return prepared(tmp_path)


def models(dataset):
    """EASE, a matrix factorisation, and a blend of both."""
    train = dataset["train"]
    ease = Ease(dataset.num_items, 5.0).eval()
    ease.fit_closed_form(CSR(train.offsets, {"item": train.item}))
    torch.manual_seed(0)
    factors = MatrixFactorisation(num_queries=dataset.num_queries, num_items=dataset.num_items, dim=4).eval()
    return {"ease": ease, "factors": factors, "blend": Blend([ease, factors], [0.5, 0.5]).eval()}


@pytest.mark.parametrize("name", ["ease", "factors", "blend"])
def test_the_last_item_counts_twice(name, dataset, tmp_path):
    train, model = dataset["train"], models(dataset)[name]
    histories, per_query = CSR(train.offsets, {"item": train.item}), []
    for cut in (0, 1):

        def scores(query, cut=cut):
            rows = [histories.slice(user, user + 1)["item"].tolist() for user in query.tolist()]
            kept = [row[: len(row) - cut] for row in rows]
            width = max(map(len, kept))
            read = torch.tensor([row + [-1] * (width - len(row)) for row in kept])
            return model.score_all({"ease": read, "factors": query, "blend": UserInput(query, read)}[name])

        found = evaluate_catalogue(scores, dataset.relevance("validation"), metrics="ndcg@10")
        per_query.append(found.per_query["ndcg@10"])
    recipe = load_recipe("ease", [f"data={dataset.path}"])
    found = with_new_items(ModelFolder(tmp_path, {}, model), dataset, recipe)
    torch.testing.assert_close(found, 2 * per_query[0] - per_query[1])
    assert torch.equal(per_query[0], per_query[1]) == (name == "factors")


def test_times_are_kept():
    items, times = torch.tensor([[4, 2, -1]]), torch.tensor([[1, 2, 0]])
    read = without_last((items, times))
    assert read[0].tolist() == [[4, -1, -1]]
    assert read[1] is times
