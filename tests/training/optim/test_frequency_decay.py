import copy

import pytest
import torch

from songrank import SONG, Relevance, SlateSampler
from songrank.core.errors import UserError
from songrank.data import prepare
from songrank.models import MatrixFactorisation
from songrank.training.build import make_trainer
from songrank.training.config.recipe import Recipe
from songrank.training.optim.registry import deferred_tables
from songrank.training.optim.row_adam import RowAdam
from songrank.training.trainer.stages import Stage
from tests.training.small_run import trainer


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return prepare("synthetic", None, tmp_path_factory.mktemp("data") / "set", queries=60, items=50, pairs=900)


PAIRS = {(0, 1): 2.0, (0, 2): 1.0, (0, 3): 1.0, (1, 1): 3.0, (2, 1): 1.0, (2, 3): 1.0}


def stage(power, **more):
    relevance = Relevance.from_pairs(*zip(*PAIRS, strict=True), list(PAIRS.values()), num_queries=3, num_items=6)
    sampler = SlateSampler(relevance, 3, relevant=2, irrelevant=2)
    return Stage("s", SONG(relevance.num_pairs), sampler, 1, 0.05, {}, 0.1, power, **more)


def penalty(model, power):
    """λ/2 (Σ_x s_x |w_x|² + Σ_q |w_q|²), row by row from the pairs."""
    total = 0.1 / 2 * model.query_factors.weight.square().sum()
    counts = [max(1, sum(item == other for _, other in PAIRS)) for item in range(6)]
    mean = sum(count**power for count in counts) / 6
    for row, count in zip(model.item_factors.weight, counts, strict=True):
        total = total + 0.1 / 2 * count**power / mean * row.square().sum()
    return total


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_decay_of_items_is_a_penalty_on_their_rows(power, optimiser):
    torch.manual_seed(0)
    model = MatrixFactorisation(3, 6, dim=4).double()
    twin = copy.deepcopy(model)
    told = stage(power, optimiser=optimiser)
    decaying = told.make_optimiser(model)
    plain = stage(0.0, optimiser=optimiser).make_optimiser(twin)
    for group in plain.param_groups:
        group["weight_decay"] = 0.0
    for number in range(5):
        for each, optimiser_of_it in ((model, decaying), (twin, plain)):
            scores = each.score_all(torch.arange(3))
            loss = (scores - number).square().mean()
            if each is twin:
                loss = loss + penalty(twin, power)
            optimiser_of_it.zero_grad()
            loss.backward()
            optimiser_of_it.step()
    for (name, found), expected in zip(model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9, msg=name)


def test_it_changes_what_is_learnt_and_a_power_of_0_changes_nothing(dataset):
    def trained(**more):
        values = {"data": "x", "model": {"name": "neumf", "dim": 4}, "batch": {"queries": 16, "irrelevant": 8}}
        part = {"epochs": 2, "learning_rate": 0.01, "weight_decay": 1e-2}
        told = {**values, "warm_up": part, "fine_tuning": {**part, **more}, "device": "cpu"}
        run = make_trainer(Recipe.read(told), dataset)
        run.run()
        return run.model.state_dict()

    plain, none, some = trained(), trained(item_decay_power=0), trained(item_decay_power=1)
    assert all(torch.equal(plain[name], none[name]) for name in plain)
    assert not torch.equal(plain["item_product.weight"], some["item_product.weight"])


def test_a_run_that_goes_on_from_a_checkpoint_decays_items_as_before(dataset, tmp_path):
    """Stopped within fine-tuning, which decays items so in this run."""
    whole = trainer(dataset.path)
    assert whole.stages[1].item_decay_power > 0
    whole.run()
    begun = trainer(dataset.path, tmp_path)
    begun.tick = lambda: begun.stop() if begun.at.stage == 1 and begun.at.epoch == 2 else None
    begun.run()
    assert begun.stopped
    again = trainer(dataset.path, tmp_path)
    again.run()
    for (name, found), expected in zip(
        again.model.state_dict().items(), whole.model.state_dict().values(), strict=True
    ):
        assert torch.equal(found, expected), name


def test_rows_do_not_wait_where_items_decay_by_their_pairs(monkeypatch):
    model = MatrixFactorisation(3, 6, dim=4)
    monkeypatch.setattr("songrank.training.optim.registry._LARGE", 1)
    assert deferred_tables(stage(0.0), model)
    assert deferred_tables(stage(1.0), model) == {}
    assert not isinstance(stage(1.0).make_optimiser(model), RowAdam)


def test_what_cannot_be_is_told(dataset):
    with pytest.raises(ValueError, match=r"item_decay_power is 1.0; expected 0 with lazy-adam"):
        stage(1.0, optimiser="lazy-adam")
    part = {"epochs": 1, "weight_decay": 1e-3, "item_decay_power": 1.0}
    values = {"data": "x", "model": {"name": "neumf", "dim": 4}, "device": "cpu", "fine_tuning": part}
    with pytest.raises(UserError, match=r"fine_tuning.item_decay_power is 1.0; expected 0 with lazy-adam"):
        Recipe.read({**values, "fine_tuning": {**part, "optimiser": "lazy-adam"}})
    with pytest.raises(UserError, match=r"fine_tuning.item_decay_power is -1"):
        Recipe.read({**values, "fine_tuning": {**part, "item_decay_power": -1}})
    with pytest.raises(
        UserError, match=r"item_decay_power is 1, but model 'history' has no item embedding table; use 0"
    ):
        make_trainer(Recipe.read({**values, "model": {"name": "history"}}), dataset)
