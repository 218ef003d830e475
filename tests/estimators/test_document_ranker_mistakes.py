"""What DocumentRanker says to a mistake, and to nobody."""

import numpy as np
import pandas
import pytest

from songrank.core.errors import UserError
from songrank.estimators import NotFittedError
from tests.estimators.small_documents import GROUP, QID, X, Y, ranker

NUMBER, LENGTHS = "expected a finite number of at least 0", "expected whole numbers of at least 1, one per list"
FINITE, FITTED = "expected finite numbers, or NaN for missing values", "pass the fitted features, in the same order"
ENTRIES = "expected a list with one entry per evaluation set"
PASS = "pass the rows per query"
ROWS = f"but X has {len(X)} rows"
MISTAKES = [
    ({"group": None}, f"neither group nor qid is given; {PASS}: group=[…]"),
    ({"qid": QID}, "group and qid are both given; expected one of them"),
    ({"group": [3, 4]}, f"group sums to 7, {ROWS}; expected the lengths of all lists, in order"),
    ({"group": [len(X) + 1, -1]}, f"group does not contain list lengths; {LENGTHS}"),
    ({"group": [len(X)]}, "only one query is left; a data set needs at least two users, texts or lists"),
    ({"group": None, "qid": QID[1:]}, f"qid has shape [{len(X) - 1}], {ROWS}; expected one id per row"),
    ({"group": None, "qid": [None, *QID[1:]]}, "qid is missing in row 0 (from 0); expected one id per row"),
    ({"y": Y[1:]}, f"y has shape [{len(X) - 1}], {ROWS}; expected one label per row"),
    ({"y": np.where(np.arange(len(Y)) == 4, np.nan, Y)}, f"y is nan in row 4 (from 0); {NUMBER}"),
    ({"y": Y - 1}, f"y is -1.0 in row {int(np.argmin(Y))} (from 0); {NUMBER}"),
    ({"y": 0 * Y}, "no training label is above 0; check the labels"),
    ({"X": X[:, 0]}, f"X has shape [{len(X)}]; expected two dimensions, [rows, features]. Reshape your data"),
    ({"X": np.where(np.arange(4) == 2, np.inf, X)}, f"X is inf in row 0, column 2 (from 0); {FINITE}"),
    ({"sample_weight": -Y - 1}, f"sample_weight is -1.0 at position 0 (from 0); {NUMBER}"),
    ({"sample_weight": np.full(len(Y), np.nan)}, f"sample_weight is nan at position 0 (from 0); {NUMBER}"),
    ({"sample_weight": [1.0]}, f"sample_weight has shape [1]; expected one weight per row, [{len(X)}]"),
    ({"group_weight": [1.0]}, f"group_weight has shape [1]; expected one weight per list, [{len(GROUP)}]"),
    ({"group_weight": np.zeros(len(GROUP))}, "group_weight is all zero; expected a weight above 0"),
    ({"eval_set": [(X, Y)]}, f"neither eval_group nor eval_qid is given; {PASS}: eval_group=[…]"),
    (
        {"eval_set": [(X, Y)], "eval_group": []},
        "eval_group has 0 entries for 1 evaluation sets; expected one entry per set",
    ),
    ({"group": ["a", 3]}, f"group does not contain list lengths; {LENGTHS}"),
    ({"group": [[3, 4], [5]]}, f"group does not contain list lengths; {LENGTHS}"),
    ({"eval_set": [(X, Y)], "eval_group": 5}, f"eval_group is 5; {ENTRIES}"),
    ({"eval_set": [(X, Y)], "eval_qid": "abc"}, f"eval_qid is 'abc'; {ENTRIES}"),
    ({"eval_set": [(X, Y)], "eval_group": {"a": GROUP}}, f"eval_group is a dict; {ENTRIES}"),
    ({"eval_set": [None]}, "eval_set 0 (from 0) is a NoneType; expected (X, y)"),
    ({"eval_set": [(X, Y, GROUP)]}, "eval_set 0 (from 0) has 3 parts; expected (X, y)"),
    ({"eval_set": 5}, "eval_set is 5; expected [(X, y), …]"),
    ({"eval_set": pandas.DataFrame(X)}, "eval_set is a DataFrame; expected [(X, y), …]"),
    (
        {"eval_set": (X, Y), "eval_group": [GROUP], "eval_names": "mine"},
        "eval_names is 'mine'; expected a list of names",
    ),
    (
        {"eval_set": [(X[:, 1:], Y)], "eval_group": [GROUP]},
        f"X has 3 features, but DocumentRanker is expecting 4 features as input; {FITTED}",
    ),
]


@pytest.mark.parametrize(("change", "message"), MISTAKES)
def test_a_mistake_is_one_line(change, message):
    with pytest.raises(UserError) as error:
        ranker(epochs=1).fit(**{"X": X, "y": Y, "group": GROUP, **change})
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("ignore", "message"),
    [
        (["nope"], "ignore has unknown column 'nope'; expected columns of X in data_options"),
        ([f"Column_{at}" for at in range(4)], "ignore has all columns of X; keep at least one feature"),
        (5, "ignore is 5; expected a list of column names in data_options"),
    ],
)
def test_columns_to_ignore_must_be_there(ignore, message):
    with pytest.raises(UserError) as error:
        ranker(data_options={"ignore": ignore}).fit(X, Y, group=GROUP)
    assert str(error.value) == message


def test_before_a_fit_there_is_nothing_to_ask():
    for ask in (
        lambda r: r.predict(X),
        lambda r: r.evaluate(X, Y, GROUP),
        lambda r: r.save("x"),
        lambda r: r.feature_name_,
    ):
        with pytest.raises(NotFittedError, match="^this DocumentRanker is not fitted yet; call fit first$"):
            ask(ranker())


def test_silence_is_silent_and_one_word_says_how_it_goes(capfd):
    sets = {"eval_set": [(X, Y)], "eval_group": [GROUP]}
    ranker(epochs=1).fit(X, Y, group=GROUP, **sets)
    assert capfd.readouterr() == ("", "")
    seen = []
    ranker(epochs=1, verbose=1, callbacks=[seen.append]).fit(X, Y, group=GROUP, **sets)
    assert capfd.readouterr().err.count(": objective ") == len(seen) == 3
