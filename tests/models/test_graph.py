"""The graph of training pairs and the propagation over it, against dense float64 loops."""

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

from songrank.models._graph import bipartite_graph, check_graph, propagate

EDGES = [(0, 1), (2, 0), (0, 3), (2, 3), (3, 3), (0, 0)]  # query 1 and item 2 have none
QUERIES, ITEMS, DIM = 4, 4, 3


def graph(edges=EDGES, queries=QUERIES, items=ITEMS):
    return bipartite_graph(torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T, queries, items)


def by_loops(vectors, layers, edges=EDGES, queries=QUERIES):
    """The mean over layers of D^{−1/2} A D^{−1/2} applied repeatedly, entry by entry."""
    vertices, dim = vectors.shape
    adjacency = np.zeros((vertices, vertices))
    for query, item in edges:
        adjacency[query, queries + item] = adjacency[queries + item, query] = 1.0
    degree = adjacency.sum(1)
    layer, total = vectors.copy(), vectors.copy()
    for _ in range(layers):
        new = np.zeros_like(layer)
        for v in range(vertices):
            for w in range(vertices):
                if adjacency[v, w]:
                    for d in range(dim):
                        new[v, d] += layer[w, d] / np.sqrt(degree[v] * degree[w])
        layer, total = new, total + new
    return total / (layers + 1)


def vectors(seed=0):
    return torch.randn(QUERIES + ITEMS, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("layers", [1, 2, 3, 5])
def test_propagation_is_that_of_dense_loops(layers):
    found = propagate(vectors(), *graph(), layers)
    np.testing.assert_allclose(found.numpy(), by_loops(vectors().numpy(), layers), rtol=0, atol=1e-12)


def test_a_vertex_without_neighbours_keeps_its_share_of_layer_0():
    found = propagate(vectors(), *graph(), 3)
    for alone in (1, QUERIES + 2):
        torch.testing.assert_close(found[alone], vectors()[alone] / 4)


def test_a_graph_without_edges():
    torch.testing.assert_close(propagate(vectors(), *graph([]), 2), vectors() / 3)


def test_repeated_edges_count_once_and_their_order_does_not_matter():
    for one, other in zip(graph([*EDGES[::-1], *EDGES[2:4]]), graph(), strict=True):
        assert torch.equal(one, other)


def test_its_derivatives_in_both_modes_are_finite_differences():
    given, weight = vectors().requires_grad_(), vectors(1)
    assert torch.autograd.gradcheck(lambda x: propagate(x, *graph(), 3), given)
    assert torch.autograd.gradgradcheck(lambda x: propagate(x, *graph(), 3), given)
    (gradient,) = torch.autograd.grad((propagate(given, *graph(), 2) * weight).sum(), given)
    for place in np.ndindex(given.shape):
        ends = []
        for step in (1e-6, -1e-6):
            moved = vectors().numpy()
            moved[place] += step
            ends.append((by_loops(moved, 2) * weight.numpy()).sum())
        assert gradient[place].item() == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-7)
    with forward_ad.dual_level():
        found = forward_ad.unpack_dual(propagate(forward_ad.make_dual(vectors(), weight), *graph(), 2)).tangent
    np.testing.assert_allclose(found.numpy(), by_loops(weight.numpy(), 2), rtol=0, atol=1e-12)


def test_threads_do_not_change_the_result():
    random = torch.Generator().manual_seed(0)
    edges = torch.stack([torch.randint(300, (9000,), generator=random), torch.randint(500, (9000,), generator=random)])
    given, parts = torch.randn(800, 16, generator=random), bipartite_graph(edges, 300, 500)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(propagate(given, *parts, 3))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)


@pytest.mark.parametrize(
    ("edges", "error", "message"),
    [
        (torch.tensor([[0], [4]]), ValueError, r"edges \(item\) is 'from 4 to 4'; expected ids from 0 to 3"),
        (torch.tensor([[-1], [0]]), ValueError, r"edges \(query\) is 'from -1 to -1'"),
        (torch.zeros(3, 2, dtype=torch.int64), ValueError, r"edges has shape \[3, 2\]; expected \[2, E\]"),
        (torch.zeros(2, 2), TypeError, "edges is torch.float32; expected dtype torch.int64"),
    ],
)
def test_edges_that_make_no_sense_are_rejected(edges, error, message):
    with pytest.raises(error, match=message):
        bipartite_graph(edges, QUERIES, ITEMS)


def test_a_damaged_graph_is_rejected():
    offsets, neighbours = graph()
    check_graph(offsets, neighbours, QUERIES)
    check_graph(*graph([]), QUERIES)
    for name, place, value in (("offsets", 2, 9), ("offsets", 0, 1), ("neighbours", 0, 8), ("neighbours", -1, 4)):
        parts = {"offsets": offsets.clone(), "neighbours": neighbours.clone()}
        parts[name][place] = value
        with pytest.raises(ValueError, match="the graph is inconsistent"):
            check_graph(*parts.values(), QUERIES)
