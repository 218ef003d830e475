"""Smooth forms of NDCG without memory, against their formulas in plain loops, and the noise of Gumbel-ApproxNDCG."""

import pytest
import torch

from songrank import Slate
from songrank.losses import ApproxNDCG, GumbelApproxNDCG
from songrank.losses.registry import LOSSES
from tests.losses.one_loss import check_formula
from tests.oracles import formulas

LABELS = torch.tensor([[2.0, 0.0, 1.0, 0.0], [0.0, 3.0, 0.0, 1.0]])
SCORES = torch.tensor([[0.3, 1.0, -0.5, 0.2], [0.1, 0.0, 0.4, -1.0]])


CASES = [
    ("approx-ndcg", formulas.approx_ndcg, {}),
    ("approx-ndcg", formulas.approx_ndcg, {"temperature": 0.3}),
    ("neural-ndcg", formulas.neural_ndcg, {}),
    ("neural-ndcg", formulas.neural_ndcg, {"temperature": 2.0, "sinkhorn_iterations": 1}),
    ("pirank", formulas.pirank, {}),
    ("pirank", formulas.pirank, {"temperature": 0.5}),
]


@pytest.mark.parametrize(("name", "oracle", "options"), CASES)
def test_the_loss_is_the_mean_of_its_formula_over_lists(name, oracle, options):
    check_formula(name, oracle, options)


def test_each_is_registered_under_its_name():
    found = {name: LOSSES[name].__name__ for name in dict.fromkeys(name for name, _, _ in CASES)}
    assert found == {
        "approx-ndcg": "ApproxNDCG",
        "neural-ndcg": "NeuralNDCG",
        "pirank": "PiRank",
    }


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
@pytest.mark.parametrize("name", ["approx-ndcg", "neural-ndcg", "pirank"])
def test_a_wrong_option_is_named(name, value):
    with pytest.raises(ValueError, match="^temperature is "):
        LOSSES[name](temperature=value)


def slate(order=(0, 1)):
    rows = list(order)
    return Slate.from_batch(LABELS[rows], query=torch.tensor(rows)), SCORES[rows]


def value(loss, order=(0, 1)):
    batch, scores = slate(order)
    return loss(scores, batch)


def test_it_is_registered():
    assert LOSSES["gumbel-approx-ndcg"] is GumbelApproxNDCG


def test_without_noise_it_is_approx_ndcg():
    torch.testing.assert_close(value(GumbelApproxNDCG(scale=0.0)), value(ApproxNDCG()))


def test_each_training_step_draws_new_noise_and_evaluation_keeps_it():
    loss = GumbelApproxNDCG()
    assert value(loss) != value(loss)
    loss.eval()
    assert value(loss) == value(loss)


def test_the_order_of_queries_changes_nothing():
    torch.testing.assert_close(value(GumbelApproxNDCG()), value(GumbelApproxNDCG(), (1, 0)))


def test_seeds_draw_different_noise_and_a_saved_step_resumes():
    assert value(GumbelApproxNDCG(seed=0)) != value(GumbelApproxNDCG(seed=1))
    one, other = GumbelApproxNDCG(), GumbelApproxNDCG()
    value(one)
    other.load_state_dict(one.state_dict())
    assert value(one) == value(other)
