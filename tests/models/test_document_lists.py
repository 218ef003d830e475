"""Lists of different lengths in bounded memory."""

import pytest
import torch

from songrank.models import document_lists


class Mean(torch.nn.Module):
    """A document's first feature minus the mean of its list, to which padding must not count."""

    def forward(self, features, mask):
        first = features[..., 0]
        return first - (first * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)


@pytest.mark.parametrize("values", [2**24, 12, 1])
def test_scores_do_not_depend_on_how_many_lists_are_padded_together(monkeypatch, values):
    monkeypatch.setattr(document_lists, "_VALUES", values)
    lengths = torch.tensor([3, 1, 5, 2, 4])
    features = torch.randn(15, 2, generator=torch.Generator().manual_seed(0))
    wanted = torch.cat([part[:, 0] - part[:, 0].mean() for part in features.split(lengths.tolist())])
    found = document_lists.score_lists(Mean(), features, lengths, torch.device("cpu"))
    torch.testing.assert_close(found, wanted)


def test_groups_cover_all_lists_and_are_bounded(monkeypatch):
    monkeypatch.setattr(document_lists, "_PAIRS", 50)
    lengths = [3, 4, 9, 1, 1, 2]
    groups = list(document_lists.list_groups(lengths, 1))
    assert [at for first, last in groups for at in range(first, last)] == list(range(6))
    for first, last in groups:
        assert last - first == 1 or (last - first) * max(lengths[first:last]) ** 2 <= 50
    monkeypatch.undo()
    assert list(document_lists.list_groups([3000, 3000, 10], num_features=5)) == [(0, 1), (1, 2), (2, 3)]
