"""Catalogues of labels."""

import pytest

from songrank.core.errors import DataError
from songrank.data.preparation.label_names import LabelNames


def catalogue(labels, names=None, **more):
    """The ids of the catalogue, and the id that each label got."""
    found = LabelNames()
    codes = [found.code(label, "train.json", line) for line, label in enumerate(labels, 1)]
    ids, number = found.finish(names, **more)
    return list(ids), [ids[int(number[code])] for code in codes]


def test_names_are_sorted_and_keep_their_rows():
    assert catalogue(["tax", "law", "tax"]) == (["law", "tax"], ["tax", "law", "tax"])


def test_numbers_make_a_catalogue_up_to_the_largest():
    assert catalogue([3, 1]) == ([0, 1, 2, 3], [3, 1])
    assert catalogue(["3", "1"], numbers_are_texts=True) == ([0, 1, 2, 3], [3, 1])
    assert catalogue(["3", "1"]) == (["1", "3"], ["3", "1"])


def test_numbers_are_places_in_a_list_of_names():
    assert catalogue([2, 0], ["tax", "sea", "law"]) == (["law", "sea", "tax"], ["law", "tax"])


@pytest.mark.parametrize(
    ("labels", "names", "message"),
    [
        (["a", 1], None, "^train.json, line 2: label is 1, but 'a' before it"),
        ([0, -1], None, "^train.json, line 2: label is -1"),
        (["a", "b"], ["a"], "^train.json, line 2: label 'b' is not one of the 1 in the list of labels"),
        ([0, 5], ["a"], "^train.json, line 2: label 5 is not one of the 1"),
    ],
)
def test_a_wrong_label_is_named_with_its_first_line(labels, names, message):
    with pytest.raises(DataError, match=message):
        catalogue([*labels, labels[-1]], names)
