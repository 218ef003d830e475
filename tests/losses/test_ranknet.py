"""RankNet as a loss of a slate, against its formula in plain loops."""

import pytest

from songrank.losses import RankNet
from tests.losses.one_loss import check_formula
from tests.oracles import formulas


@pytest.mark.parametrize("options", [{}, {"sigma": 2.5}])
def test_the_loss_is_the_mean_of_its_formula_over_lists(options):
    check_formula("ranknet", RankNet, formulas.ranknet, options)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_a_wrong_option_is_named(value):
    with pytest.raises(ValueError, match="^sigma is "):
        RankNet(sigma=value)
