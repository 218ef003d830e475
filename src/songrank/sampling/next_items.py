"""Histories as tables of entries: input windows of a model, and the relevant items at each entry.

A history table is a CSR with one row per user, oldest entry first, and the columns ``item`` and ``label``.
"""

import torch
from torch import Tensor

from songrank.core.checks import check_int
from songrank.core.csr import CSR, segment_rows
from songrank.core.gains import weighted_labels
from songrank.core.pairs import last_of_equal, pack
from songrank.core.relevance import Relevance


def last_windows(
    histories: CSR, user: Tensor, length: int, end: Tensor | None = None, column: str = "item"
) -> tuple[Tensor, Tensor]:
    """Starts of each user's last ``length`` + 1 entries, and [U, T] the items of all but the last, padded with −1.

    From these items a model predicts each next entry of the window. A window may ``end`` [U] before the history.

    >>> last_windows(CSR.from_lengths([3, 1], item=[5, 6, 7, 5]), torch.tensor([0, 1]), length=2)
    (tensor([0, 3]), tensor([[ 5,  6],
            [-1, -1]]))
    """
    end = histories.offsets[user + 1] if end is None else end
    begin = torch.maximum(histories.offsets[user], end - 1 - length)
    return begin, histories.span(begin, (end - 1 - begin).clamp_min(0), column=column)


def target_windows(offsets: Tensor, stride: int) -> tuple[Tensor, Tensor, Tensor]:
    """Successive windows of ``stride`` entries of each history: user, first entry and number of entries of each.

    They are counted from the end of a history: the first window of a user may be shorter. Every entry is in one window.

    >>> target_windows(torch.tensor([0, 5, 5, 6]), stride=2)
    (tensor([0, 0, 0, 2]), tensor([0, 1, 3, 5]), tensor([1, 2, 2, 1]))
    """
    lengths = offsets.diff()
    windows = (lengths + stride - 1) // stride
    user, at = segment_rows(windows, torch.zeros_like(windows))
    last = offsets[user + 1] - stride * (windows[user] - 1 - at)
    first = torch.maximum(offsets[user], last - stride)
    return user, first, last - first


def window_ends(offsets: Tensor, entry: Tensor, stride: int) -> Tensor:
    """The end of the window of :func:`target_windows` that holds each entry: the entry after its last.

    >>> window_ends(torch.tensor([0, 5, 5, 6]), torch.tensor([0, 1, 3, 5]), stride=2)
    tensor([1, 3, 5, 6])
    """
    end = offsets[torch.searchsorted(offsets, entry, right=True)]
    return end - (end - 1 - entry) // stride * stride


def next_items(histories: CSR, num_items: int, following: int = 1, gain: str = "exp2") -> Relevance:
    """Relevant items at each entry of histories: those of ``following`` entries of the user, starting with its own.

    The gain of the j-th, from 1, is 1 / j of the gain of its label; of repeated items the larger gain counts. Queries
    are entries; a row of a loss's memory is a pair of an entry and an item.

    >>> some = CSR.from_lengths([3, 1], item=[5, 6, 7, 5], label=[1.0, 1.0, 1.0, 1.0])
    >>> found = next_items(some, num_items=9, following=2, gain="linear")
    >>> found.num_relevant.tolist(), found.item.tolist(), found.label.tolist()
    ([2, 2, 1, 1], [5, 6, 6, 7, 7, 5], [1.0, 0.5, 1.0, 0.5, 1.0, 1.0])
    """
    item, label = histories["item"], histories["label"]
    entry = torch.arange(item.shape[0], device=item.device)
    end = histories.offsets[1:].repeat_interleave(histories.lengths)
    keys, labels = [], []
    for place in range(check_int("following", following)):
        kept = entry + place < end
        at = (entry + place)[kept]
        keys.append(pack(entry[kept], item[at], num_items))
        labels.append(weighted_labels(label[at].float(), 1.0 / (place + 1), gain))
    key, relevance = torch.cat(keys), torch.cat(labels)
    if following > 1:  # the larger of two labels of a pair is last
        order = relevance.argsort(stable=True)
        order = order[key[order].argsort(stable=True)]
        order = order[last_of_equal(key[order])]
        key, relevance = key[order], relevance[order]
    return Relevance.from_keys(key, relevance, item.shape[0], num_items)
