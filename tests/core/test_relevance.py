"""The table of relevant pairs."""

import numpy as np
import pandas as pd
import pytest
import torch

from songrank import Relevance
from songrank.functional import ideal_dcg


def test_pairs_are_sorted_and_counted_and_zero_labels_are_irrelevant():
    relevance = Relevance.from_pairs([2, 0, 0, 2], [1, 3, 0, 2], [1.0, 2.0, 0.0, 0.5], num_queries=4, num_items=5)
    assert relevance.num_pairs == 3
    assert relevance.num_relevant.tolist() == [1, 0, 2, 0]
    assert relevance.list_size.tolist() == [5, 5, 5, 5]
    assert relevance.item.tolist() == [3, 1, 2]
    assert relevance.pair_index([0, 0, 2, 2, 3], [3, 0, 2, 1, 1]).tolist() == [0, -1, 2, 1, -1]


def test_excluded_pairs_compete_in_no_list():
    relevance = Relevance.from_pairs([0, 1], [0, 1], num_items=4, exclude=([0, 0, 1], [2, 3, 0]))
    assert relevance.list_size.tolist() == [2, 3]
    assert relevance.num_relevant.tolist() == [1, 1]


@pytest.mark.parametrize("k", [None, 1, 3, 100])
@pytest.mark.parametrize("gain", ["exp2", "linear", torch.sqrt])
def test_ideal_dcg_is_that_of_each_querys_labels(k, gain):
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(0, 9, (30,), generator=generator)
    label = torch.randint(0, 5, (int(lengths.sum()),), generator=generator) / 2
    relevance = Relevance.from_lists(label, lengths)
    expected = torch.stack(
        [
            ideal_dcg(part.double(), k=k, gain=gain) if part.numel() else torch.tensor(0.0).double()
            for part in label.split(lengths.tolist())
        ]
    )
    torch.testing.assert_close(relevance.ideal_dcg(k, gain).double(), expected, rtol=1e-6, atol=1e-7)
    in_pieces = relevance._compute_ideal_dcg(k, gain, pairs_at_once=7)
    assert torch.equal(in_pieces, relevance.ideal_dcg(k, gain))


def test_a_shard_holds_its_part_under_the_names_of_the_whole():
    relevance = Relevance.from_pairs([0, 1, 1, 3], [0, 1, 2, 3], num_queries=5, num_items=4, exclude=([1, 3], [3, 0]))
    relevance.ideal_dcg()
    part = relevance.shard(1, 4).shard(2, 4)
    assert (part.query_range, part.pair_range) == ((2, 4), (3, 4))
    assert (part.num_queries, part.num_pairs) == (5, 4)
    assert part.list_size.tolist() == [4, 3]
    assert part.pair_index([3], [3]).tolist() == [3]
    assert torch.equal(part.ideal_dcg(), relevance.ideal_dcg()[2:4])
    with pytest.raises(ValueError, match="ids from 2 to 3"):
        part.pair_index([1], [0])
    with pytest.raises(ValueError, match=r"shard is \(0, 2\)"):
        part.shard(0, 2)


def test_moving_to_a_device_keeps_shared_tables_shared():
    relevance = Relevance.from_pairs([0], [0], num_items=2)
    moved = relevance.to("meta")
    assert moved.indptr.is_meta
    assert moved.taken_item is moved.item


def test_memory_is_eight_bytes_a_pair():
    relevance = Relevance.from_pairs(torch.arange(1000), torch.arange(1000), num_items=1000)
    assert relevance.item.element_size() + relevance.label.element_size() == 8
    assert relevance.taken_item is relevance.item


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 0], [1, 1]), r"pair \(query=0, item=1, rows \[0, 1\]\) is repeated"),
        (([0, -1], [1, 1]), r"query\[1\] is -1; expected a number of at least 0"),
        (([0, 1], [1.5, 2.5]), "item is 'of type float64'; expected whole numbers"),
        ((torch.tensor([0, 1]), torch.tensor([1.5, 2.5])), "item is 'of type torch.float32'; expected whole numbers"),
        ((["ann", "bob"], [1, 2]), "query is 'of type <U3'; expected whole numbers"),
        (([0, 1], [5, 2**60]), "num_items is 1152921504606846977; expected consecutive ids from 0"),
        (([0, 1], [1]), "item is 'of length 1'; expected the length of query, 2"),
        (([0], [1], [-2.0]), r"label\[0\] is -2.0; expected a finite number of at least 0"),
        (([0], [1], [float("nan")]), r"label\[0\] is nan"),
        (([0], [7], [1.0], 1, 5), "item contains the id 7; expected ids below num_items=5"),
        (([9], [1], [1.0], 3, 5), "query contains the id 9; expected ids below num_queries=3"),
        (([0], [1], [1.0], 1, 5, ([0], [1])), "is both relevant and excluded"),
        (([0], [1], [1.0], 1, 5, ([0, 0], [2, 2])), "expected each excluded pair once"),
        (([0], [1], [1.0], 1, 5, ([0], [6])), "item contains the id 6"),
        (([[0]], [[1]]), r"query is 'of shape \[1, 1\]'; expected one dimension"),
    ],
)
def test_bad_pairs_are_refused_by_name(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Relevance.from_pairs(*arguments)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint16", "uint32", "uint64"])
def test_ids_may_be_whole_numbers_of_any_kind(dtype):
    ids = np.array([2, 1, 0], dtype=dtype)[::-1]
    assert Relevance.from_pairs(ids, ids.astype(dtype)).num_relevant.tolist() == [1, 1, 1]


def test_columns_of_a_data_frame_are_taken_by_position():
    frame = pd.DataFrame({"user": [7, 0, 1], "item": [3, 2, 2], "rating": [0.0, 4.0, 2.5]}).query("rating > 0")
    relevance = Relevance.from_pairs(frame.user, frame.item, frame.rating)
    assert (relevance.num_queries, relevance.num_items, relevance.label.tolist()) == (2, 3, [4.0, 2.5])


def test_what_the_caller_changes_later_changes_nothing():
    lengths, labels = torch.tensor([3, 2]), torch.tensor([0.0, 1.0, 0.0, 2.0, 0.0])
    relevance = Relevance.from_lists(labels, lengths)
    lengths[0], labels[1] = 100, 9.0
    assert relevance.list_size.tolist() == [3, 2]
    assert relevance.label.tolist() == [1.0, 2.0]


def test_labels_whose_gain_overflows_are_refused_where_the_gain_is_taken():
    relevance = Relevance.from_pairs([0, 1], [0, 1], [2.0, 200.0])
    with pytest.raises(ValueError, match="label of query 1 is 'as large as 200'; expected labels with finite gain"):
        relevance.ideal_dcg()
    assert relevance.ideal_dcg(gain="linear").tolist() == [2.0, 200.0]


def test_lists_whose_lengths_do_not_add_up_are_refused():
    with pytest.raises(
        ValueError, match="lengths is 'a total of 3'; expected a total equal to the number of labels, 4"
    ):
        Relevance.from_lists([0, 1, 0, 1], [1, 2])
    with pytest.raises(ValueError, match=r"labels\[1\] is -1.0"):
        Relevance.from_lists([0, -1], [2])
