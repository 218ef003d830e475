"""Every model learns: a few steps of Adam lower the losses that are meant to train it."""

import pytest
import torch

from songrank import SONG, ListwiseCE, Relevance, Slate, SlateSampler
from songrank.metrics import evaluate_catalogue
from tests.models.small import CATALOGUE, ITEMS, LISTS, bags, catalogue, csr, dense, ids, listed, lists, parts

LOSSES = {"song": SONG, "solc": ListwiseCE}
every_loss = pytest.mark.parametrize("loss", LOSSES)


def rows_of(describe, slate):
    """Queries 0 to 5, in the order of the slate."""
    query = slate.query
    if describe is csr:
        return dense(6)[query].to_sparse_csr()
    if describe is bags:
        return parts(dense(6)[query])
    return describe(6)[query]


@every_loss
@pytest.mark.parametrize("name", CATALOGUE)
def test_catalogue_models_learn(name, loss):
    model, describe = catalogue(name)[0].train(), CATALOGUE[name][1]
    generator = torch.Generator().manual_seed(3)
    query, item = (torch.rand(6, ITEMS, generator=generator) < 0.2).nonzero(as_tuple=True)
    relevance = Relevance.from_pairs(query, item, num_queries=6, num_items=ITEMS)
    sampler = SlateSampler(relevance, queries_per_batch=6, relevant=4, irrelevant=10)
    objective = LOSSES[loss](relevance.num_pairs)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.03)
    values = []
    for epoch in range(18):
        slate = sampler.draw(sampler.order(epoch), epoch)
        value = objective(model(rows_of(describe, slate), slate.item), slate)
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        values.append(value.item())
    assert sum(values[-5:]) < sum(values[:5])


@every_loss
@pytest.mark.parametrize("name", LISTS)
def test_list_models_learn(name, loss):
    model = listed(name).train()
    features, mask = lists(8, rows=6, columns=9)
    label = torch.where(mask, (features[..., 0] > 0.5).float() + (features[..., 1] > 0).float(), 0.0)
    pair = torch.where(label > 0, torch.arange(54).view(6, 9), -1)
    slate = Slate.from_batch(label, torch.arange(6), pair, mask)
    objective = LOSSES[loss](54, gamma=1.0)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    values = []
    for _ in range(15):
        value = objective(model(features, mask), slate)
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        values.append(value.item())
    assert sum(values[-5:]) < sum(values[:5])


def test_the_papers_recipe_runs_warm_up_then_a_new_head_then_song():
    torch.manual_seed(0)
    model, _ = catalogue("neumf")
    query, item = torch.arange(6).repeat_interleave(3), torch.arange(18)
    relevance = Relevance.from_pairs(query, item, num_queries=6, num_items=ITEMS)
    sampler = SlateSampler(relevance, queries_per_batch=6, relevant=3, irrelevant=12)
    for kind in (ListwiseCE, SONG):
        model.train()
        model.reset_head()
        objective, optimiser = kind(relevance.num_pairs), torch.optim.Adam(model.parameters(), lr=0.03)
        for epoch in range(40):
            slate = sampler.draw(sampler.order(epoch), epoch)
            optimiser.zero_grad()
            objective(model(slate.query, slate.item), slate).backward()
            optimiser.step()
    assert evaluate_catalogue(model.eval(), relevance, metrics="ndcg@10").values["ndcg@10"] > 0.9


def test_full_lists_with_shared_candidates_train_through_one_row_of_items():
    model, _ = catalogue("factors")
    label = (torch.rand(6, ITEMS, generator=torch.Generator().manual_seed(0)) < 0.2).float()
    pair = torch.where(label > 0, torch.arange(6 * ITEMS).view(6, ITEMS), -1)
    slate = Slate.from_batch(label, ids(6), pair)
    assert slate.item.shape == (1, ITEMS)
    SONG(6 * ITEMS)(model(slate.query, slate.item), slate).backward()
    assert model.item_factors.weight.grad.any()
