"""Helpers that tests of several modules share."""

import torch

from songrank import Relevance
from songrank.core.csr import CSR
from songrank.sampling import SequenceSampler, next_items

ITEMS = 12

ROWS = [[3, 1, 4, 1, 5], [], [2], [7, 1, 8, 2, 9, 6, 0, 11], [5, 6]]


def build(length=4, label=None, following=1, **options):
    offsets = torch.tensor([0, *torch.tensor([len(row) for row in ROWS]).cumsum(0).tolist()])
    item = torch.tensor([item for row in ROWS for item in row])
    labels = torch.ones(len(item)) if label is None else label
    query = torch.repeat_interleave(torch.arange(len(ROWS)), offsets.diff())
    pairs = torch.stack([query, item]).unique(dim=1)
    relevance = Relevance.from_pairs(*pairs, num_queries=len(ROWS), num_items=ITEMS)
    histories = CSR(offsets, {"item": item, "label": labels})
    if following > 1:
        options["targets"] = next_items(histories, ITEMS, following, options.get("gain", "exp2"))
    return SequenceSampler(relevance, histories, length, **options)


def entries(users, length):
    """(number, item, items before it within the window) of each row, by plain loops."""
    found = []
    for user in users:
        first = sum(map(len, ROWS[:user]))
        own = ROWS[user]
        for place in range(max(0, len(own) - length), len(own)):
            window = own[max(0, len(own) - 1 - length) : place]
            found.append((first + place, own[place], window))
    return found


def windows(stride):
    """(user, first and last place of its rows) of successive windows from the end, by plain loops."""
    found = []
    for user, row in enumerate(ROWS):
        ends = range(len(row), 0, -stride)
        found += [(user, max(0, end - stride), end - 1) for end in reversed(ends)]
    return found
