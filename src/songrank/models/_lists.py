"""What list models do with padding."""

import torch
from torch import Tensor

from songrank.core.checks import fail


def read_lists(features: Tensor, mask: Tensor, num_features: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Features [B, L, F] in the model's type with 0 for padding, and the mask [B, L].

    Padding is cleared before anything is computed: a NaN there would reach the weights' gradient, even times 0.

    >>> features, mask = torch.tensor([[[1.0], [torch.nan]]]), torch.tensor([[True, False]])
    >>> read_lists(features, mask, 1, torch.float32)[0]
    tensor([[[1.],
             [0.]]])
    """
    if not isinstance(features, Tensor):
        fail("features", type(features).__name__, "a tensor of shape [B, L, F]", TypeError)
    if features.dim() != 3 or features.shape[2] != num_features:
        raise ValueError(f"features has shape {list(features.shape)}; expected [B, L, F] with F={num_features}")
    rows, columns = features.shape[:2]
    if not isinstance(mask, Tensor):
        fail("mask", type(mask).__name__, "a tensor of shape [B, L] or [1, L]", TypeError)
    if mask.dim() != 2 or mask.shape[1] != columns or (mask.shape[0] != 1 and mask.shape[0] != rows):
        raise ValueError(f"mask has shape {list(mask.shape)}; expected [B, L] or [1, L], here {[rows, columns]}")
    if mask.dtype != torch.bool:
        fail("mask", mask.dtype, "type torch.bool", TypeError)
    return features.to(dtype).masked_fill(~mask.unsqueeze(-1), 0.0), mask.expand(rows, columns)
