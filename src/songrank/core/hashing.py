"""Counter-based random numbers: a value depends only on its key and counter, so it is the same on every device."""

import torch
from torch import Tensor

_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_WORD = 1 << 64


def _signed(value: int) -> int:
    return (value + (_WORD >> 1)) % _WORD - (_WORD >> 1)


def derive_key(*words: int) -> int:
    """Combine integers (a seed, an epoch, a stream id) into one 64-bit key, on the host."""
    key = 0
    for word in words:
        value = (key + (word + 1) * _GOLDEN) % _WORD
        value = ((value ^ (value >> 30)) * _FIRST) % _WORD
        value = ((value ^ (value >> 27)) * _SECOND) % _WORD
        key = value ^ (value >> 31)
    return _signed(key)


def random_bits(key: Tensor | int, counter: Tensor) -> Tensor:
    """64 random bits as int64: SplitMix64 at key + (counter + 1)·φ, modulo 2⁶⁴; int64 arguments are broadcast."""
    base = key + _signed(_GOLDEN) if isinstance(key, Tensor) else _signed(key + _GOLDEN)
    value = counter * _signed(_GOLDEN) + base
    value.bitwise_xor_((value >> 30).bitwise_and_((1 << 34) - 1)).mul_(_signed(_FIRST))
    value.bitwise_xor_((value >> 27).bitwise_and_((1 << 37) - 1)).mul_(_signed(_SECOND))
    return value.bitwise_xor_((value >> 31).bitwise_and_((1 << 33) - 1))


def random_uniform(key: Tensor | int, counter: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """A uniform number in the open interval (0, 1) for each counter."""
    return ((random_bits(key, counter) & 0x7FFFFF).to(dtype) + 0.5) / float(1 << 23)
