"""EASE: plain loops in float64, few neighbours, empty and long histories, and the choice of λ."""

import numpy as np
import pytest
import torch

from songrank.core.csr import CSR
from songrank.models import CatalogueModel, Ease
from songrank.models import ease as module

ITEMS = 40


def matrix(seed=0, users=80, items=ITEMS, share=0.15):
    return (np.random.default_rng(seed).random((users, items)) < share).astype(float)


def table(rows):
    user, item = rows.nonzero()
    return CSR.from_rows(torch.from_numpy(user), rows.shape[0], item=torch.from_numpy(item))


def fitted(rows, regularisation=5.0, neighbours="all", **options):
    model = Ease(rows.shape[1], regularisation, neighbours, **options)
    return model, model.fit_closed_form(table(rows))


def weights(model):
    """B, from the scores of histories of one item."""
    return model.score_all(torch.arange(model.num_items).unsqueeze(1)).numpy()


def ridge(rows, regularisation, inputs):
    """B by one regression of each column on the columns ``inputs(column)``."""
    found = np.zeros((rows.shape[1], rows.shape[1]))
    for item in range(rows.shape[1]):
        own = inputs(item)
        normal = rows[:, own].T @ rows[:, own] + regularisation * np.eye(len(own))
        found[own, item] = np.linalg.solve(normal, rows[:, own].T @ rows[:, item])
    return found


def cosines(rows):
    length = np.maximum(np.linalg.norm(rows, axis=0), 1)
    found = rows.T @ rows / np.outer(length, length)
    np.fill_diagonal(found, -1)
    return found


def all_others(item):
    return [other for other in range(ITEMS) if other != item]


@pytest.mark.parametrize("neighbours", ["all", "auto", ITEMS - 1, 10**6])
def test_dense_weights_are_the_regressions_on_all_other_items(neighbours):
    rows = matrix()
    model, _ = fitted(rows, neighbours=neighbours)
    np.testing.assert_allclose(weights(model), ridge(rows, 5.0, all_others), atol=1e-6)
    assert not weights(model).diagonal().any()


@pytest.mark.parametrize("neighbours", [1, 7, ITEMS - 2])
def test_sparse_weights_are_the_regressions_on_the_items_with_the_largest_cosine(neighbours):
    rows, cosine = matrix(), cosines(matrix())
    model, _ = fitted(rows, neighbours=neighbours)
    found, chosen = weights(model), {}
    for item in range(ITEMS):
        chosen[item] = np.flatnonzero(found[:, item])
        assert item not in chosen[item]
        least = np.sort(cosine[:, item])[-neighbours]  # several may have the same cosine
        own = model.item.numpy() == item
        kept = np.repeat(np.arange(ITEMS), model.offsets.diff().numpy())[own]
        assert len(kept) == neighbours
        assert (cosine[kept, item] >= least - 1e-7).all()
        chosen[item] = kept
    np.testing.assert_allclose(found, ridge(rows, 5.0, chosen.__getitem__), atol=1e-6)


@pytest.mark.parametrize("neighbours", ["all", 7])
def test_scores_are_sums_over_the_set_of_the_last_items(neighbours):
    model, _ = fitted(matrix(), neighbours=neighbours, length=3)
    own = weights(model)
    history = torch.tensor([[4, 9, 4, -1], [9, 4, -1, -1], [1, 2, 3, 5], [7, -1, -1, -1]])
    expected = [own[[4, 9]].sum(0), own[[4, 9]].sum(0), own[[2, 3, 5]].sum(0), own[7]]
    np.testing.assert_allclose(model.score_all(history).numpy(), expected, atol=1e-6)
    item = torch.randint(ITEMS, (4, 6))
    torch.testing.assert_close(model(history, item), model.score_all(history).gather(1, item))
    torch.testing.assert_close(model(history, item[:1]), model.score_all(history)[:, item[0]])
    assert isinstance(model, CatalogueModel)


@pytest.mark.parametrize("neighbours", ["all", 7])
@pytest.mark.parametrize("width", [0, 2])
def test_an_empty_history_is_ranked_by_popularity(neighbours, width):
    rows = matrix()
    model, _ = fitted(rows, neighbours=neighbours)
    scores = model.score_all(torch.full((2, width), -1))
    np.testing.assert_allclose(scores.numpy(), [rows.mean(0)] * 2, atol=1e-7)


def test_the_number_of_weights_added_at_a_time_changes_nothing(monkeypatch):
    model, _ = fitted(matrix(), neighbours=7)
    history = torch.randint(-1, ITEMS, (9, 6)).sort(dim=1, descending=True).values
    before = model.score_all(history)
    monkeypatch.setattr(module, "_ENTRIES", 5)
    torch.testing.assert_close(model.score_all(history), before)


@pytest.mark.parametrize("neighbours", ["all", 7])
def test_the_objective_is_the_minimum_per_interaction(neighbours):
    rows = matrix()
    model, found = fitted(rows, neighbours=neighbours)
    own = weights(model).astype(float)
    expected = (((rows - rows @ own) ** 2).sum() + 5.0 * (own**2).sum()) / rows.sum()
    assert found.objective == pytest.approx(expected, abs=1e-6)
    assert found.options == {"regularisation": 5.0}


def test_permuted_items_have_permuted_weights():
    rows, order = matrix(share=0.3), np.random.default_rng(1).permutation(ITEMS)
    before, after = (weights(fitted(some, 20.0)[0]) for some in (rows, rows[:, order]))
    np.testing.assert_allclose(after, before[np.ix_(order, order)], atol=1e-6)


def test_tastes_that_share_no_item_do_not_mix():
    rows = np.zeros((40, 30))
    rows[:20, :15], rows[20:, 15:] = matrix(2, 20, 15, 0.5), matrix(3, 20, 15, 0.5)
    for neighbours in ("all", 5):
        scores = fitted(rows, 10.0, neighbours)[0].score_all(torch.tensor([[0, 3], [20, 25]]))
        assert not scores[0, 15:].any()
        assert not scores[1, :15].any()


@pytest.mark.parametrize("neighbours", ["all", 7])
def test_regularisation_is_chosen_by_the_value_of_trials(neighbours):
    asked = []

    def value(model, found):
        asked.append(found.options["regularisation"])
        assert model.score_all(torch.tensor([[3]])).isfinite().all()
        return -abs(asked[-1] - 500)

    found = Ease(ITEMS, neighbours=neighbours).fit_closed_form(table(matrix()), value)
    assert asked == [20, 50, 120, 300, 800, 2000, 190, 470]
    assert found.options == {"regularisation": 470}
    assert Ease(ITEMS).fit_closed_form(table(matrix())).options == {"regularisation": 120}
    asked.clear()
    Ease(ITEMS, 7).fit_closed_form(table(matrix()), value)
    assert not asked


@pytest.mark.parametrize("items", [1, 2])
def test_tiny_catalogues_are_fitted(items):
    model, found = fitted(np.ones((3, items)))
    assert found.objective <= 1
    assert model.score_all(torch.tensor([[0]])).shape == (1, items)


def test_a_catalogue_above_the_limit_has_few_neighbours(monkeypatch):
    monkeypatch.setattr(module, "DENSE_ITEMS", ITEMS - 1)
    monkeypatch.setattr(module, "NEIGHBOURS", 9)
    assert Ease(ITEMS).neighbours == 9
    assert Ease(ITEMS, neighbours="all").neighbours is None


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("offsets", lambda own: own + 1),
        ("offsets", lambda own: own.flip(0)),
        ("item", lambda own: torch.zeros_like(own)),
        ("item", lambda own: own - 1),
    ],
)
def test_inconsistent_rows_are_rejected(name, tensor):
    model, _ = fitted(matrix(), neighbours=7)
    model.check_buffers()
    setattr(model, name, tensor(getattr(model, name)))
    with pytest.raises(ValueError, match=name):
        model.check_buffers()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"regularisation": 0}, r"regularisation is 0.0; expected a number in \(0, inf\)"),
        ({"regularisation": "big"}, "regularisation is 'big'; expected 'auto' or a number above 0"),
        ({"neighbours": 0}, "neighbours is 0; expected a whole number of at least 1"),
        ({"neighbours": "many"}, "neighbours is 'many'; expected 'auto', 'all' or a whole number"),
    ],
)
def test_invalid_options_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        Ease(5, **options)
