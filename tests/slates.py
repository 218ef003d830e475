"""Slates for tests: random, ragged, padded, with graded and fractional labels."""

import torch

from songrank import Slate
from songrank.functional import ideal_dcg


def sampled_slate(
    seed: int, *, rows: int = 4, pairs: int = 4, columns: int = 11, k: int | None = None, first_pair: int = 0
) -> Slate:
    """A slate as a sampler makes it: queries with fewer relevant items than columns for them, padding, big lists.

    Row 0 has one relevant item, row 1 nothing but relevant items, the last row is padded at its end.
    """
    generator = torch.Generator().manual_seed(seed)
    lists = torch.Generator().manual_seed(77)  # the lists are the same whatever is sampled of them
    label = torch.zeros(rows, columns, dtype=torch.float64)
    mask = torch.ones(rows, columns, dtype=torch.bool)
    pair = torch.full((rows, pairs), -1)
    list_size, num_relevant, ideal = [], [], []
    for row in range(rows):
        total = 1 if row == 0 else int(torch.randint(2, pairs + 6, (), generator=lists))
        rest = 0 if row == 1 else columns + int(torch.randint(0, 40, (), generator=lists))
        grades = torch.randint(1, 9, (total,), generator=lists).double() / 2
        sampled = min(total, pairs if row == 1 else int(torch.randint(2, pairs + 1, (), generator=generator)))
        chosen = torch.randperm(total, generator=generator)[:sampled]
        label[row, :sampled] = grades[chosen]
        pair[row, :sampled] = first_pair + row * (pairs + 6) + chosen
        mask[row, sampled:pairs] = False
        if row == 1:
            mask[row, pairs:] = False
        if row == rows - 1:
            mask[row, -3:] = False
        ideal.append(ideal_dcg(grades, k=k))
        list_size.append(total + rest)
        num_relevant.append(total)
    weight = torch.rand(rows, generator=generator).double() + 0.5
    return Slate(
        query=torch.arange(rows),
        item=torch.arange(columns).expand(rows, columns).contiguous(),
        label=label,
        mask=mask,
        pair=pair,
        list_size=torch.tensor(list_size),
        num_relevant=torch.tensor(num_relevant),
        ideal_dcg=torch.stack(ideal),
        k=k,
        row_weight=weight,
    )


def full_slate(seed: int, *, rows: int = 3, columns: int = 8, k: int | None = None) -> Slate:
    """Full lists of several lengths, with graded labels."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.randint(0, 5, (rows, columns), generator=generator).double() / 2
    label[:, 0] = 1.5
    mask = torch.ones(rows, columns, dtype=torch.bool)
    mask[0, -2:] = False
    pair = torch.where((label > 0) & mask, torch.arange(rows * columns).view(rows, columns), -1)
    return Slate.from_batch(label, torch.arange(rows), pair, mask, k=k)
