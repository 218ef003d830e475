"""Pointwise binary cross-entropy as a loss of a slate, against its formula in plain loops."""

import pytest

from songrank.losses import PointwiseBCE
from tests.losses.one_loss import check_formula
from tests.oracles import formulas


@pytest.mark.parametrize("options", [{}])
def test_the_loss_is_the_mean_of_its_formula_over_lists(options):
    check_formula("bce", PointwiseBCE, formulas.bce, options)
