"""What a model of histories gains from the last item of each history, beside histories that were cut by hand."""

import pytest
import torch

from songrank.analysis.last_items import gain_of_last_items
from songrank.core.csr import CSR
from songrank.metrics import evaluate_catalogue
from songrank.models import Ease
from songrank.models.model_folder import ModelFolder
from songrank.training.config.recipe_files import load_recipe
from tests.baselines.small_log import prepared


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_it_is_the_difference_to_histories_without_the_last_item(sign, tmp_path):
    dataset = prepared(tmp_path, users=400)
    train = dataset["train"]
    histories = CSR(train.offsets, {"item": train.item})
    model = Ease(dataset.num_items, 5.0).eval()
    model.fit_closed_form(histories)
    with torch.no_grad():
        model.weight.mul_(sign)  # with −1, the last item makes the ranking worse
    recipe = load_recipe("ease", [f"data={dataset.path}"])
    values = []
    for cut in (0, 1):

        def scores(query, cut=cut):
            rows = [histories.slice(user, user + 1)["item"].tolist() for user in query.tolist()]
            kept = [row[: len(row) - cut] for row in rows]
            width = max(map(len, kept))
            return model.score_all(torch.tensor([row + [-1] * (width - len(row)) for row in kept]))

        values.append(evaluate_catalogue(scores, dataset.relevance("validation"), metrics="ndcg@10").values["ndcg@10"])
    found = gain_of_last_items(ModelFolder(tmp_path, {}, model), dataset, recipe)
    assert found == pytest.approx(max(0.0, values[0] - values[1]))
    assert (found > 0) == (sign > 0)
