"""DocumentRanker as a blend with LightGBM; where LightGBM is not installed, with a stand-in of the same calls."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from songrank.analysis.blend_weights import standardise_lists
from songrank.core.errors import UserError
from songrank.estimators import DocumentRanker
from tests.estimators.small_documents import GROUP, QID, Y, documents, ranker
from tests.estimators.small_documents import X as FEATURES

X = np.nan_to_num(FEATURES)


class Booster:
    """A linear function, with the calls of LightGBM's Booster."""

    def __init__(self, model_str=None, weights=None):
        self.weights = np.array(json.loads(model_str)) if weights is None else weights

    def predict(self, data):
        return data @ self.weights

    def model_to_string(self):
        return json.dumps(self.weights.tolist())


@pytest.fixture(params=["stand-in", "LightGBM"])
def lightgbm(request, monkeypatch):
    if request.param == "LightGBM":
        return pytest.importorskip("lightgbm")
    asked = []

    def train(parameters, data, num_boost_round):
        asked.append((parameters, num_boost_round))
        features, label, group = data
        assert group.sum() == len(features)
        return Booster(weights=np.linalg.lstsq(features, label, rcond=None)[0])

    made = SimpleNamespace(Dataset=lambda data, label, group: (data, label, group), train=train, Booster=Booster)
    made.asked = asked
    monkeypatch.setitem(sys.modules, "lightgbm", made)
    return made


def test_scores_are_the_sum_of_standardised_scores_in_each_list(lightgbm):
    plain, made = (ranker(lightgbm=blend).fit(X, Y, group=GROUP) for blend in (False, True))
    part, lengths = made._lightgbm, torch.from_numpy(GROUP)
    assert part.weight == 0.5
    both = plain.predict(X, group=GROUP), part.booster.predict(X)
    parts = [standardise_lists(torch.from_numpy(np.asarray(scores, np.float64)), lengths) for scores in both]
    found = made.predict(X, group=GROUP)
    np.testing.assert_allclose(found, (sum(parts) / 2).numpy(), atol=1e-5)
    shuffled = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_allclose(made.predict(X[shuffled], qid=QID[shuffled]), found[shuffled], atol=1e-5)


def test_the_weight_is_chosen_on_the_evaluation_set(lightgbm, capfd):
    data, labels, group = documents(1)
    data = np.nan_to_num(data)
    made = ranker(lightgbm=True, epochs=1, verbose=1).fit(
        X, Y, group=GROUP, eval_set=[(data, labels)], eval_group=[group]
    )
    weight, metric = made._lightgbm.weight, str(made.recipe_.validation.metric)
    assert f"blend of {1 - weight:.2f} mlp and {weight:.2f} LightGBM" in capfd.readouterr().err
    value = made.evaluate(data, labels, group, metric).values[metric]
    assert made.best_score_["valid_0"][metric] == value == made.evaluation_["valid_0"].values[metric]
    for other in (0.0, 0.25, 1.0):
        object.__setattr__(made._lightgbm, "weight", other)
        assert made.evaluate(data, labels, group, metric).values[metric] <= value + 1e-12


def test_it_survives_saving(lightgbm, tmp_path):
    made = ranker(lightgbm={"n_estimators": 7, "min_data_in_leaf": 1}).fit(X, Y, group=GROUP)
    made.save(tmp_path / "ranker")
    again = DocumentRanker.load(tmp_path / "ranker", "cpu")
    np.testing.assert_allclose(again.predict(X, group=GROUP), made.predict(X, group=GROUP), atol=1e-5)
    assert again.get_params()["lightgbm"] == {"n_estimators": 7, "min_data_in_leaf": 1}
    if hasattr(lightgbm, "asked"):
        parameters, rounds = lightgbm.asked[-1]
        assert (parameters["objective"], parameters["min_data_in_leaf"], rounds) == ("lambdarank", 1, 7)
        assert "n_estimators" not in parameters
    ranker().fit(X, Y, group=GROUP).save(tmp_path / "ranker")
    assert not (tmp_path / "ranker" / "lightgbm.txt").exists()


def test_what_it_cannot_do_is_one_line(lightgbm):
    made = ranker(lightgbm=True).fit(X, Y, group=GROUP)
    with pytest.raises(UserError, match="^predict needs group or qid with lightgbm"):
        made.predict(X)
    with pytest.raises(UserError, match="^lightgbm does not support sample_weight and group_weight"):
        made.fit(X, Y, group=GROUP, group_weight=np.ones(len(GROUP)))
    with pytest.raises(UserError, match=r"^y has the label 0\.5; LightGBM expects whole numbers up to 30"):
        made.fit(X, np.where(Y == 1, 0.5, Y), group=GROUP)
    with pytest.raises(UserError, match="^lightgbm is 3; expected True, False or a dict of parameters$"):
        ranker(lightgbm=3).fit(X, Y, group=GROUP)


def test_without_lightgbm_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(UserError, match="LightGBM, which is not installed: pip install lightgbm$"):
        ranker(lightgbm=True).fit(X, Y, group=GROUP)
