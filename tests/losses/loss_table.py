"""One table over all losses, and slates and runs to hold them against each other (``test_matrix_*.py``).

A new loss is one new row of ``TABLE``. Each comparison runs fresh losses over a few steps on one slate, so that what
is remembered between steps is compared too.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from songrank import Slate
from songrank.losses import (
    BPR,
    BSL,
    GBCE,
    KSONG,
    PSL,
    SONG,
    ApproxNDCG,
    FasterKSONG,
    FasterSONG,
    GumbelApproxNDCG,
    LambdaLoss,
    LambdaRank,
    ListMLE,
    ListNet,
    ListwiseCE,
    NeuralNDCG,
    PiRank,
    PointwiseBCE,
    RankingLoss,
    RankNet,
    SampledSoftmax,
    SLatK,
    SoftmaxCE,
)
from songrank.losses.paper_form import PaperForm
from songrank.losses.top_k import ThresholdOptions

PAIRS, QUERIES, K = 12, 8, 2
COUNTS = ("steps", "guarded", "last_query", "last_threshold")  # of the faster forms: what the last step was, no rows


@dataclass(frozen=True)
class Row:
    name: str
    make: Callable[..., RankingLoss]
    """Called with the precision of the memory as ``dtype``, where the loss has one."""
    k: int | None = None
    """The k its slates are made for."""
    memory: bool = False
    shift_invariant: bool = True
    variant: bool = False
    """Another setting of a loss that has a row already."""
    noisy: bool = False
    """Draws noise for each item, so that equal items are not treated alike."""

    def build(self, dtype: torch.dtype) -> RankingLoss:
        finest = torch.float64 if dtype == torch.float64 else torch.float32
        return self.make(dtype=finest) if self.memory else self.make()


def song(**options):
    return lambda dtype: SONG(PAIRS, dtype=dtype, **options)


def faster(**options):
    return lambda dtype: FasterSONG(PAIRS, QUERIES, QUERIES, dtype=dtype, **options)


def ksong(**options):
    return lambda dtype: KSONG(PAIRS, QUERIES, K, dtype=dtype, **options)


TABLE = [
    Row("SONG", song(), memory=True),
    Row("SONG-paper", song(form="paper"), memory=True, variant=True),
    Row("SONG-logistic", song(surrogate="logistic", gamma=1.0), memory=True, variant=True),
    Row(
        "SONG-plain",
        song(surrogate="smooth_hinge", margin=1.5, form=PaperForm(estimator="plain")),
        memory=True,
        variant=True,
    ),
    Row("KSONG-theoretical", ksong(), k=K, memory=True),
    Row("KSONG-practical", ksong(mode="practical"), k=K, memory=True),
    Row("KSONG-paper", ksong(form="paper", threshold=ThresholdOptions(tau2=0.0)), k=K, memory=True),
    Row("KSONG-rank", ksong(form=PaperForm(selection="rank")), k=K, memory=True),
    Row(
        "KSONG-step",
        ksong(
            selector="smooth_step",
            threshold=ThresholdOptions(tau2=0.0),
            form=PaperForm(smoothing="hinge", threshold_step="gradient", lagged=True),
        ),
        k=K,
        memory=True,
    ),
    Row("SONG-exponential", song(surrogate="exponential", temperature=0.7), memory=True),
    Row("SONG-tanh", song(surrogate="tanh", rank_offset=1.0), memory=True, variant=True),
    Row("KSONG-exponential", ksong(surrogate="exponential", temperature=0.7), k=K, memory=True),
    Row(
        "KSONG-periodic",
        ksong(surrogate="exponential", threshold=ThresholdOptions(tau2=0.0, source="periodic", every=2)),
        k=K,
        memory=True,
        variant=True,
    ),
    Row("FasterSONG-exponential", faster(surrogate="exponential", temperature=0.7), memory=True),
    Row("SLatK", lambda dtype: SLatK(PAIRS, QUERIES, K, 0.3, dtype=dtype), k=K, memory=True),
    Row("PSL", lambda dtype: PSL(PAIRS, temperature=0.5, dtype=dtype), memory=True),
    Row("BSL", lambda dtype: BSL(PAIRS, 0.3, temperature=0.5, relevant_temperature=1.0, dtype=dtype), memory=True),
    Row("FasterSONG", lambda dtype: FasterSONG(PAIRS, QUERIES, QUERIES, dtype=dtype), memory=True),
    Row("FasterKSONG", lambda dtype: FasterKSONG(PAIRS, QUERIES, K, QUERIES, dtype=dtype), k=K, memory=True),
    Row("ListwiseCE", lambda dtype: ListwiseCE(PAIRS, dtype=dtype), memory=True),
    Row("ListwiseCE-batch", lambda dtype: ListwiseCE(PAIRS, gamma=1.0, dtype=dtype), memory=True, variant=True),
    Row("ApproxNDCG", ApproxNDCG),
    Row("BPR", BPR),
    Row("GBCE", GBCE, shift_invariant=False),
    Row("GumbelApproxNDCG", GumbelApproxNDCG, noisy=True),
    Row("LambdaLoss", LambdaLoss),
    Row("LambdaLoss-at-2", lambda: LambdaLoss(k=2), variant=True),
    Row("LambdaRank", LambdaRank),
    Row("LambdaRank-at-2", lambda: LambdaRank(k=2), variant=True),
    Row("ListMLE", ListMLE),
    Row("ListNet", ListNet),
    Row("NeuralNDCG", NeuralNDCG),
    Row("NeuralNDCG-at-2", lambda: NeuralNDCG(k=2, sinkhorn_iterations=5), variant=True),
    Row("PiRank", PiRank),
    Row("PiRank-at-2", lambda: PiRank(k=2), variant=True),
    Row("PointwiseBCE", PointwiseBCE, shift_invariant=False),
    Row("RankNet", RankNet),
    Row("SampledSoftmax", SampledSoftmax),
    Row("SoftmaxCE", SoftmaxCE),
]
every_row = pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
with_memory = pytest.mark.parametrize("row", [row for row in TABLE if row.memory], ids=lambda row: row.name)
every_slate = pytest.mark.parametrize("kind", ["full", "sampled", "shared"])
every_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
half_precision = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


def full_slate(k=None) -> Slate:
    """Whole lists of different lengths, as a user's own loop has them: counts and ideal DCG come from the labels."""
    labels = torch.tensor(
        [
            [2.0, 0.0, 1.0, 0.0, 0.5, 0.0, 0.0],
            [0.0, 1.0, 0.0, 0.0, 3.0, 1.0, 0.0],
            [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0],
            [1.5, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0],
        ]
    )
    mask = torch.tensor(
        [
            [True, True, True, True, True, True, True],
            [True, True, True, False, True, True, False],
            [True, True, True, True, False, True, True],
            [True, True, True, False, False, True, True],
        ]
    )
    pair = torch.tensor(
        [
            [3, -1, 0, -1, 1, -1, -1],
            [-1, 4, -1, -1, 2, 7, -1],
            [-1, -1, 5, -1, -1, -1, -1],
            [6, -1, -1, -1, -1, -1, 11],
        ]
    )
    return Slate.from_batch(labels, torch.tensor([5, 0, 3, 6]), pair, mask, k=k)


def sampled_slate(k=None) -> Slate:
    """A sampler's slate: part of longer lists, relevant items anywhere, padding between, weights of the queries."""
    labels = torch.tensor(
        [
            [1.0, 0.0, 0.0, 2.0, 0.0, 0.5, 0.0, 0.0],
            [0.0, 3.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
            [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        ]
    )
    mask = torch.ones(3, 8, dtype=torch.bool)
    mask[0, 4] = mask[1, 0] = mask[1, 7] = mask[2, 5] = False
    slate = Slate(
        query=torch.tensor([2, 7, 4]),
        item=torch.arange(24).view(3, 8) * 3,
        label=labels,
        mask=mask,
        pair=torch.tensor([[0, 8, 3], [-1, 5, 10], [9, -1, -1]]),
        column=torch.tensor([[3, 0, 5], [0, 4, 1], [2, 0, 0]]),
        list_size=torch.tensor([40, 9, 500]),
        num_relevant=torch.tensor([5, 2, 1]),
        ideal_dcg=torch.tensor([6.5, 7.7, 1.0]),
        k=k,
        row_weight=torch.tensor([1.0, 0.5, 2.0]),
    )
    slate.check()
    return slate


def shared_slate(k=None) -> Slate:
    """All rows share candidates and mask; one list is no longer than K."""
    labels = torch.tensor([[0.0, 1.0, 0.0, 2.0, 0.0], [1.0, 0.0, 0.0, 0.0, 1.0]])
    slate = Slate(
        query=torch.tensor([1, 6]),
        item=torch.tensor([[4, 9, 2, 7, 0]]),
        label=labels,
        mask=torch.tensor([[True, True, False, True, True]]),
        pair=torch.tensor([[1, 2], [3, 4]]),
        column=torch.tensor([[1, 3], [0, 4]]),
        list_size=torch.tensor([30, 4]),
        num_relevant=torch.tensor([2, 2]),
        ideal_dcg=torch.tensor([3.6, 1.6]),
        k=k,
    )
    slate.check()
    return slate


SLATES = {"full": full_slate, "sampled": sampled_slate, "shared": shared_slate}


def scores_for(slate: Slate, steps=3, dtype=torch.float64, seed=0, scale=1.0) -> list[Tensor]:
    """Scores of a few steps, drawn in float32 so that every precision starts from the same numbers."""
    generator = torch.Generator().manual_seed(seed)
    return [(scale * torch.randn(slate.label.shape, generator=generator)).to(dtype) for _ in range(steps)]


@dataclass
class Run:
    values: list[Tensor]
    gradients: list[Tensor]
    state: dict[str, Tensor]


def state_of(loss: torch.nn.Module) -> dict[str, Tensor]:
    return {name: buffer.detach().clone() for name, buffer in loss.named_buffers() if name not in COUNTS}


def run(row: Row, slate: Slate, steps: list[Tensor], loss=None, call=None) -> Run:
    """A fresh loss (or the one given) through a few steps of scores on one slate."""
    loss = row.build(steps[0].dtype) if loss is None else loss
    values, gradients = [], []
    for scores in steps:
        scores = scores.clone().requires_grad_()
        value = (loss if call is None else call)(scores, slate)
        value.backward()
        values.append(value.detach())
        gradients.append(scores.grad)
    return Run(values, gradients, state_of(loss))


def close(found, want, dtype=torch.float64, **options):
    """Equal to the last bits of the precision that the loss computes in (gradients: that the scores have)."""
    limits = {
        torch.float64: {"rtol": 1e-9, "atol": 1e-12},
        torch.float32: {"rtol": 1e-4, "atol": 1e-6},
        torch.bfloat16: {"rtol": 2**-7, "atol": 1e-5},
        torch.float16: {"rtol": 2**-9, "atol": 1e-5},
    }
    torch.testing.assert_close(found, want, **(limits[dtype] | options))


def same(found: Run, want: Run, dtype, pick=lambda gradient: gradient, state=True):
    working = torch.float64 if dtype == torch.float64 else torch.float32
    close(found.values, want.values, working)
    close([pick(gradient) for gradient in found.gradients], want.gradients, dtype)
    if state:
        close(found.state, want.state, working)


def widened(slate: Slate) -> Slate:
    """The same with item and mask of its own for every row."""
    shape = slate.label.shape
    return replace(slate, item=slate.item.expand(shape).clone(), mask=slate.mask.expand(shape).clone())
