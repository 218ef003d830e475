"""The bipartite graph of queries and items, and the propagation of vectors over it."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from songrank import kernels
from songrank.core.checks import check_tensor, check_type, fail

LARGEST = 2**31 - 1  # of an int32


def bipartite_graph(edges: Tensor, num_queries: int, num_items: int) -> tuple[Tensor, Tensor]:
    """Offsets int32 [V + 1] and neighbours int32 [2E] of V = queries + items vertices; repeated edges count once.

    Args:
        edges: int64 [2, E]: query and item of each edge.
        num_queries: number of queries, the first vertices.
        num_items: number of items, the vertices after them.

    >>> bipartite_graph(torch.tensor([[0, 1, 1], [1, 0, 1]]), num_queries=2, num_items=2)
    (tensor([0, 1, 3, 4, 6], dtype=torch.int32), tensor([3, 2, 3, 1, 0, 1], dtype=torch.int32))
    """
    check_tensor("edges", edges, "[2, E]")
    check_type("edges", edges, torch.int64)
    if edges.dim() != 2 or edges.shape[0] != 2:
        raise ValueError(f"edges has shape {list(edges.shape)}; expected [2, E]")
    for name, ids, number in (("query", edges[0], num_queries), ("item", edges[1], num_items)):
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < number:
            fail(f"edges ({name})", f"from {int(ids.min())} to {int(ids.max())}", f"ids from 0 to {number - 1}")
    key: Tensor = (edges[0] * num_items + edges[1]).unique()  # type: ignore[no-untyped-call]
    if max(2 * key.shape[0], num_queries + num_items) > LARGEST:
        fail("edges", f"{key.shape[0]:,} edges", f"a graph of at most {LARGEST // 2:,} edges")
    query, item = key // num_items, key % num_items
    degree = torch.cat([query.bincount(minlength=num_queries), item.bincount(minlength=num_items)])
    neighbours = torch.cat([item + num_queries, query[item.argsort(stable=True)]])
    return F.pad(degree.cumsum(0), (1, 0)).int(), neighbours.int()


def check_graph(offsets: Tensor, neighbours: Tensor, num_queries: int) -> None:
    """Raise ``ValueError`` unless this is a bipartite graph of queries and items."""
    vertices, half = offsets.shape[0] - 1, neighbours.shape[0] // 2
    sound = int(offsets[0]) == 0 and int(offsets[num_queries]) == half and int(offsets[-1]) == 2 * half
    sound = sound and bool((offsets.diff() >= 0).all())
    items, queries = neighbours[:half], neighbours[half:]
    if half:
        sound = sound and num_queries <= int(items.min()) <= int(items.max()) < vertices
        sound = sound and 0 <= int(queries.min()) <= int(queries.max()) < num_queries
    if not sound:
        raise ValueError("the graph is inconsistent")


def propagate(vectors: Tensor, offsets: Tensor, neighbours: Tensor, layers: int) -> Tensor:
    """(1 / (K + 1)) Σ_{k=0}^K Âᵏ X, with Â = D^{−1/2} A D^{−1/2}, for vectors X [V, D] of all vertices.

    A is symmetric, so the gradient with respect to X is the same function of the gradient of the result.

    >>> graph = bipartite_graph(torch.tensor([[0], [0]]), num_queries=1, num_items=2)
    >>> propagate(torch.tensor([[4.0], [2.0], [6.0]]), *graph, layers=1)  # the last vertex has no neighbours
    tensor([[3.],
            [3.],
            [3.]])
    """
    result: Tensor = _Propagation.apply(vectors, offsets, neighbours, layers)  # type: ignore[no-untyped-call]
    return result


class _Propagation(torch.autograd.Function):
    """:func:`propagate` without intermediate tensors for its derivatives."""

    @staticmethod
    def forward(vectors: Tensor, offsets: Tensor, neighbours: Tensor, layers: int) -> Tensor:
        degree = offsets.diff().unsqueeze(1)
        scale = degree.to(torch.promote_types(vectors.dtype, torch.float32)).rsqrt().masked_fill(degree == 0, 0.0)
        scale = scale.to(vectors.dtype)
        if layers and vectors.dtype == torch.float32 and kernels.usable(vectors):
            from songrank.kernels.propagation import propagation

            return propagation(vectors, scale, offsets, neighbours, layers)
        total, scaled = vectors, torch.empty_like(vectors)
        for _ in range(layers):  # Horner's rule; new memory costs more than the arithmetic
            torch.mul(total, scale, out=scaled)
            # A product of the CSR matrix A with a table: three times as fast as torch's sparse product on a CPU.
            sums = F.embedding_bag(neighbours, scaled, offsets, mode="sum", include_last_offset=True)
            total = torch.addcmul(vectors, sums, scale, out=sums)
        return total.div_(layers + 1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.layers = inputs[3]
        ctx.save_for_backward(*inputs[1:3])
        ctx.save_for_forward(*inputs[1:3])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        offsets, neighbours = ctx.saved_tensors
        return propagate(gradients[0], offsets, neighbours, ctx.layers), None, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor:
        offsets, neighbours = ctx.saved_tensors
        return propagate(tangents[0], offsets, neighbours, ctx.layers)
