"""Helpers that tests of several modules share."""

import torch

TASKS = ("recommendation", "search", "labelling")

SMALL = {
    "recommendation": {"queries": 1300, "items": 700, "pairs": 30_011},
    "search": {"queries": 1300, "items": 9_001, "features": 7},
    "labelling": {"queries": 1300, "items": 90, "pairs": 4_321, "features": 400, "words": 20},
}


def all_pairs(dataset):
    parts = [dataset[split].unique_pairs() for split in dataset]
    return tuple(torch.cat(columns) for columns in zip(*parts, strict=True))
