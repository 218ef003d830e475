"""Random fractions, from which the samplers draw."""

import torch
from torch import Tensor

from songrank.core.hashing import random_bits


def random_fractions(key: Tensor, count: int) -> Tensor:
    """[..., count]: float64 numbers in [0, 1), 32 bits each, for ``key`` [...]; two from each 64-bit number.

    ⌊fraction · n⌋ is then below n for any whole n < 2³², with a bias below n/2³², and the same on every device.
    """
    bits = random_bits(key.unsqueeze(-1), torch.arange((count + 1) // 2, device=key.device))
    return bits.view(torch.int32)[..., :count].double().mul_(2.0**-32).add_(0.5)
