"""PiRank as a loss of a slate, against its formula in plain loops."""

import pytest

from songrank.losses import PiRank
from tests.losses.one_loss import check_formula
from tests.oracles import formulas


@pytest.mark.parametrize("options", [{}, {"temperature": 0.5}])
def test_the_loss_is_the_mean_of_its_formula_over_lists(options):
    check_formula("pirank", PiRank, formulas.pirank, options)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_a_wrong_option_is_named(value):
    with pytest.raises(ValueError, match="^temperature is "):
        PiRank(temperature=value)
