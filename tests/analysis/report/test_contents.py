"""Contents of a report, gathered as far as possible."""

import pytest

from songrank.analysis.report.contents import Missing, attempt
from songrank.core.errors import UserError


def fail(error):
    raise error


def test_an_error_of_the_user_is_a_reason_and_any_other_is_raised():
    assert attempt(lambda: 3) == 3
    assert attempt(lambda: fail(UserError("no data"))) == Missing("no data")
    with pytest.raises(KeyError):
        attempt(lambda: fail(KeyError("bug")))
