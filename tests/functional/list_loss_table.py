"""Every list loss with its oracle, and batches to hold them against each other on."""

from dataclasses import dataclass, field

import pytest
import torch

from songrank import functional as F
from tests.oracles import formulas as oracles

GUMBEL_SAMPLES = 3


@dataclass(frozen=True)
class Loss:
    name: str
    call: object
    oracle: object
    options: dict = field(default_factory=dict)

    def __call__(self, scores, labels, **given):
        if self.call is F.gumbel_approx_ndcg_loss:
            given.setdefault("noise", noise_like(scores))
        return self.call(scores, labels, **self.options, **given)

    def one_list(self, scores, labels, at, noise):
        return self.oracle(scores, labels, at, noise, **self.options)


UNSAMPLED = {"unsampled": 9, "unsampled_relevant": 2}


def of_longer_lists(call):
    """The loss of samples: each list has 9 items more, 2 of them relevant."""

    def loss(scores, labels, *, mask=None, **given):
        if mask is None or mask.shape == labels.shape:
            present = torch.ones_like(labels, dtype=torch.bool) if mask is None else mask
            given["list_size"] = present.sum(-1) + UNSAMPLED["unsampled"]
            given["num_relevant"] = ((labels > 0) & present).sum(-1) + UNSAMPLED["unsampled_relevant"]
        return call(scores, labels, mask=mask, **given)

    return loss


def sampled(oracle):
    """The oracle of :func:`of_longer_lists`."""

    def one_list(scores, labels, at, noise, **options):
        return oracle(scores, labels, at, noise, **UNSAMPLED, **options)

    return one_list


LOSSES = [
    Loss("ranknet", F.ranknet_loss, oracles.ranknet),
    Loss("ranknet-sigma", F.ranknet_loss, oracles.ranknet, {"sigma": 2.5}),
    Loss("bpr", F.bpr_loss, oracles.bpr),
    Loss("bpr-sigma", F.bpr_loss, oracles.bpr, {"sigma": 0.5}),
    Loss("lambdarank", F.lambdarank_loss, oracles.lambdarank),
    Loss("lambdarank-at-3", F.lambdarank_loss, oracles.lambdarank, {"k": 3, "sigma": 0.5}),
    Loss("lambdarank-linear", F.lambdarank_loss, oracles.lambdarank, {"gain": "linear"}),
    Loss("lambdaloss", F.lambda_loss, oracles.lambda_loss),
    Loss("lambdaloss-at-2", F.lambda_loss, oracles.lambda_loss, {"k": 2, "mu": 3.0, "sigma": 0.5}),
    Loss("lambdaloss-linear", F.lambda_loss, oracles.lambda_loss, {"k": 1, "gain": "linear"}),
    Loss("listnet", F.listnet_loss, oracles.listnet),
    Loss("softmax", F.softmax_loss, oracles.softmax),
    Loss("sampled-softmax", F.sampled_softmax_loss, oracles.sampled_softmax),
    Loss("sampled-softmax-of-more", of_longer_lists(F.sampled_softmax_loss), sampled(oracles.sampled_softmax)),
    Loss("listmle", F.listmle_loss, oracles.listmle),
    Loss("approx-ndcg", F.approx_ndcg_loss, oracles.approx_ndcg),
    Loss("approx-ndcg-sharp", F.approx_ndcg_loss, oracles.approx_ndcg, {"temperature": 0.3, "gain": "linear"}),
    Loss("gumbel", F.gumbel_approx_ndcg_loss, oracles.gumbel_approx_ndcg),
    Loss("gumbel-scaled", F.gumbel_approx_ndcg_loss, oracles.gumbel_approx_ndcg, {"scale": 0.4, "temperature": 0.5}),
    Loss("neural-ndcg", F.neural_ndcg_loss, oracles.neural_ndcg),
    Loss("neural-ndcg-at-2", F.neural_ndcg_loss, oracles.neural_ndcg, {"k": 2, "temperature": 2.0, "gain": "linear"}),
    Loss("neural-ndcg-no-sinkhorn", F.neural_ndcg_loss, oracles.neural_ndcg, {"sinkhorn_iterations": 0}),
    Loss("neural-ndcg-one-sinkhorn", F.neural_ndcg_loss, oracles.neural_ndcg, {"sinkhorn_iterations": 1}),
    Loss("pirank", F.pirank_loss, oracles.pirank),
    Loss("pirank-at-2", F.pirank_loss, oracles.pirank, {"k": 2, "temperature": 0.5}),
    Loss("bce", F.bce_loss, oracles.bce),
    Loss("gbce", F.gbce_loss, oracles.gbce),
    Loss("gbce-of-more", of_longer_lists(F.gbce_loss), sampled(oracles.gbce)),
    Loss("gbce-calibrated", of_longer_lists(F.gbce_loss), sampled(oracles.gbce), {"t": 1.0}),
]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)


def noise_like(scores):
    """Standard Gumbel noise [samples, …] that depends on nothing but the shape."""
    generator = torch.Generator().manual_seed(99)
    uniform = torch.rand((GUMBEL_SAMPLES, *scores.shape), generator=generator, dtype=torch.float64)
    return -torch.log(-torch.log(uniform))


def batch(*leading, length=6, seed=0):
    """Scores, graded and fractional labels, and a mask with holes; float64 with any leading axes."""
    generator = torch.Generator().manual_seed(seed)
    shape = (*leading, length)
    scores = torch.randn(shape, generator=generator, dtype=torch.float64)
    grades = torch.tensor([0.0, 0.0, 0.5, 1.0, 1.0, 2.25, 3.0], dtype=torch.float64)
    labels = grades[torch.randint(0, len(grades), shape, generator=generator)]
    mask = torch.rand(shape, generator=generator) < 0.75
    mask[..., 0] = True
    return scores, labels, mask


def expected(loss, scores, labels, mask):
    """(value of each list, gradient of each list's value), by the loops; lists in the order of the leading axes."""
    noise = noise_like(scores)
    values, gradients = [], []
    for place in torch.cartesian_prod(*[torch.arange(size) for size in scores.shape[:-1]]).view(-1, scores.dim() - 1):
        place = tuple(place.tolist())
        there = mask[place].nonzero().flatten().tolist()
        row = [scores[place][index].item() for index in there]
        label = [labels[place][index].item() for index in there]
        draws = [[draw[place][index].item() for index in there] for draw in noise]
        gradient = [0.0] * scores.shape[-1]
        if there:
            values.append(loss.one_list(row, label, row, draws))
            slopes = oracles.central_difference(
                lambda x, label=label, row=row, draws=draws: loss.one_list(x, label, row, draws), row
            )
            for index, slope in zip(there, slopes, strict=True):
                gradient[index] = slope
        else:
            values.append(0.0)
        gradients.append(gradient)
    shape = scores.shape
    return (
        torch.tensor(values, dtype=torch.float64).view(shape[:-1]),
        torch.tensor(gradients, dtype=torch.float64).view(shape),
    )


def value_and_gradient(loss, scores, labels, **given):
    scores = scores.clone().requires_grad_()
    value = loss(scores, labels, **given)
    return value.detach(), torch.autograd.grad(value.sum(), scores)[0]
