"""Constraints that constructors declare in their annotations."""

import pytest

from songrank.core.options import Annotated, Choice, Number, Sizes, Whole, WithOptions, check_options, checked


class Model(WithOptions):
    made = 0

    @checked
    def __init__(
        self,
        dim: Annotated[int, Whole()],
        rate: Annotated[float, Number(0, 1)] | None = None,
        hidden: Annotated[tuple[int, ...], Sizes(1)] = (4,),
        activation: Annotated[str, Choice(("relu", "tanh"))] = "relu",
    ):
        Model.made += 1
        self.dim, self.rate, self.hidden = dim, rate, hidden

    @classmethod
    def check_together(cls, options):
        if options.get("rate") == 1 and options.get("activation") == "tanh":
            raise ValueError("rate 1 does not go with tanh")


WRONG = [
    ({"dim": 0}, ValueError, "^dim is 0; expected a whole number of at least 1$"),
    ({"dim": 2, "rate": 2}, ValueError, r"^rate is 2.0; expected a number in \[0, 1\]$"),
    ({"dim": 2, "hidden": []}, TypeError, r"^hidden is \[\]; expected a sequence of at least 1 whole numbers$"),
    ({"dim": 2, "hidden": [3, 0]}, ValueError, r"^hidden\[1\] is 0"),
    ({"dim": 2, "activation": "gelu"}, ValueError, "^activation is 'gelu'; expected one of 'relu', 'tanh'$"),
    ({"dim": 2, "rate": 1, "activation": "tanh"}, ValueError, "^rate 1 does not go with tanh$"),
]


@pytest.mark.parametrize(("options", "error", "message"), WRONG)
def test_the_constructor_and_the_check_reject_the_same_options(options, error, message):
    before = Model.made
    with pytest.raises(error, match=message):
        Model(**options)
    with pytest.raises(ValueError, match=message.replace("^", r"^model\.", 1)):
        check_options({"model": (Model, options)})
    assert Model.made == before


def test_values_reach_the_constructor_as_their_constraint_returns_them():
    model = Model(2, rate=1, hidden=[5, 6])
    assert (model.dim, model.rate, model.hidden) == (2, 1.0, (5, 6))
    assert isinstance(model.rate, float)
    assert Model(2).rate is None


def test_a_check_constructs_nothing():
    before = Model.made
    check_options({"model": (Model, {"dim": 2, "rate": None})})
    assert Model.made == before


def test_options_of_a_subclass_are_checked_together_once_all_are_known():
    class Longer(Model):
        @checked
        def __init__(self, extra: Annotated[int, Whole()] = 1):
            super().__init__(dim=2, rate=1, activation="tanh")

    assert Longer().rate == 1
