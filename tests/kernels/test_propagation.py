"""Propagation by the kernel is that of the plain path, with the same gradient."""

import pytest
import torch

pytest.importorskip("triton", reason="kernels need Triton")

from songrank import kernels
from songrank.models._graph import bipartite_graph, propagate

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def graph(queries, items, edges):
    generator = torch.Generator().manual_seed(0)
    query, item = (torch.randint(many, (edges,), generator=generator) for many in (queries, items))
    return [part.to(DEVICE) for part in bipartite_graph(torch.stack([query, item]), queries, items)]


@pytest.mark.parametrize(
    ("queries", "items", "edges", "width", "layers"),
    [(1, 1, 0, 3, 1), (1, 1, 1, 1, 1), (5, 7, 12, 5, 2), (3, 90, 200, 64, 3), (150, 2, 260, 6, 2)],
)
def test_result_and_gradient_are_those_of_the_plain_path(queries, items, edges, width, layers, monkeypatch):
    from songrank.kernels import propagation as kernel

    used = []
    run = kernel.propagation
    monkeypatch.setattr(kernels, "usable", lambda tensor: kernels._wanted)
    monkeypatch.setattr(kernel, "propagation", lambda *given: used.append(1) or run(*given))
    parts = graph(queries, items, edges)
    vectors = torch.randn(queries + items, width, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    gradient = torch.randn(vectors.shape, generator=torch.Generator().manual_seed(2)).to(DEVICE)

    def both(dtype):
        leaf = vectors.to(dtype, copy=True).requires_grad_()
        result = propagate(leaf, *parts, layers)
        result.backward(gradient.to(dtype))
        return result.detach(), leaf.grad

    found = both(torch.float32)
    assert len(used) == 2
    with kernels.plain():
        wanted = both(torch.float64)
    assert len(used) == 2
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)


def test_the_order_of_summation_is_fixed(monkeypatch):
    monkeypatch.setattr(kernels, "usable", lambda tensor: True)
    parts, vectors = graph(40, 30, 900), torch.randn(70, 16, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    assert torch.equal(propagate(vectors, *parts, 2), propagate(vectors, *parts, 2))
