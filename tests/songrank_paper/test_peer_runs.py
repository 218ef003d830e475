"""Runs with other implementations."""

from unittest import mock

import pytest
import torch

from songrank import Relevance, SlateSampler
from tests.songrank_paper.small_training import TINY, done, plan, users


def test_libaucs_loss_is_its_own_and_rows_of_padding_do_not_count():
    ranking = pytest.importorskip("libauc.losses.ranking")
    from songrank_paper.peer_runs import LibaucSONG

    query, item = [q for q in range(5) for _ in range(3)], [(3 * q + i) % 12 for q in range(5) for i in range(3)]
    relevance = Relevance.from_pairs(query, item, [1.0, 2.0, 3.0] * 5, num_items=12)
    padded = list(SlateSampler(relevance, 3, 3, 4, partial="pad"))[-1]
    short = list(SlateSampler(relevance, 3, 3, 4))[-1]
    ours = LibaucSONG(relevance.num_pairs, 5, 12, 3, gamma=0.3)
    theirs = ranking.NDCGLoss(N=relevance.num_pairs, num_user=5, num_item=12, num_pos=3, gamma0=0.3, device="cpu")
    scores = torch.randn(3, 7, generator=torch.Generator().manual_seed(0), requires_grad=True)
    value = ours(scores, padded)
    value.backward()
    own = scores.detach()[:2].requires_grad_()
    batch = {"rating": short.label, "user_id": short.query, "num_pos_items": short.num_relevant}
    expected = theirs(own, batch | {"ideal_dcg": short.ideal_dcg, "user_item_id": short.pair})
    expected.backward()
    assert value.item() == pytest.approx(expected.item())
    torch.testing.assert_close(scores.grad[:2], own.grad)
    assert not scores.grad[2].any()


def test_listmle_of_tensorflow_ranking_replaces_the_loss_of_a_run(tmp_path):
    from songrank_paper.peer_losses import RandomTiesListMLE
    from songrank_paper.peers import FigPeers

    used = []

    class Watched(RandomTiesListMLE):
        def forward(self, scores, slate):
            used.append(int(self.steps))
            return super().forward(scores, slate)

    settings = plan((0,), netflix=users(tmp_path / "data"))
    (cell,) = (cell for cell in FigPeers(TINY).cells(settings, {}) if cell.name.endswith("ListMLE alone, seed 0"))
    with mock.patch("songrank_paper.peer_runs.RandomTiesListMLE", Watched):
        result = done(cell, tmp_path / "cells")
    assert used == list(range(len(used)))
    assert len(used) > 4
    assert [epoch for epoch, _ in result["curve"]] == [1, 2, 3, 4, 5]
