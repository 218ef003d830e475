"""Vectorised parsing of short decimal numbers, as text in eight-byte words, first character in the lowest byte.

A left shift of a word drops the characters after a number and prepends zeros. Up to 16 characters (minus sign, digits,
one dot) give an integer below 2**53 and a power of ten below 10**22, both exact, so their quotient is rounded like
``float(text)``. For up to 24 characters, the first 16 give lower and upper bounds; if both round to the same float32,
it is the result. All other numbers are left to the caller.
"""

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Lengths = NDArray[np.int64]


def _every_byte(value: int) -> np.uint64:
    return np.uint64(value * 0x0101010101010101)


_ZEROS = _every_byte(ord("0"))
_MINUS = np.uint64(ord("-") ^ ord("0"))
_DOT = np.uint64(ord(".") ^ ord("0"))  # 0x1E: the fifth bit is set, unlike in digits
_FIFTH_BIT, _HIGH_HALF, _SIX = _every_byte(0x10), _every_byte(0xF0), _every_byte(0x06)
_PLACES = np.uint64(0x0706050403020100)  # times 2**(8k), its highest byte is 7 - k, the number of bytes above byte k
_PAIRS, _FOURS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
_1, _3, _4, _8, _16, _32, _56, _64, _128, _15, _255 = map(np.uint64, (1, 3, 4, 8, 16, 32, 56, 64, 128, 15, 255))
_SIGNED_POWERS = np.array([10.0**n for n in range(16)] + [-(10.0**n) for n in range(16)])


def whole_numbers(text: Words, length: Lengths) -> tuple[NDArray[np.int64], bool]:
    """Integers of one to eight digits, and whether all characters are digits."""
    digits = _digits(text, length)
    return _value(digits).view(np.int64), not _not_digits(digits).any()


def decimals(words: Words, length: Lengths) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Numbers with optional sign and dot, and a mask of valid results; not for numbers of one character.

    ``words`` are the first 24 characters of each number, [N, 3], ``length`` its length.
    """
    value, sound = np.empty(length.size), np.zeros(length.size, dtype=np.bool_)
    short = (length > 1) & (length <= 8)
    if short.all():
        word, bits, sign = _without_sign(words[:, 0], length)
        return _one_word(word << (_64 - bits), sign)
    some = np.flatnonzero(short)
    if some.size:
        word, bits, sign = _without_sign(words[some, 0], length.take(some))
        value[some], sound[some] = _one_word(word << (_64 - bits), sign)
    some = np.flatnonzero((length > 8) & (length <= 16))
    if some.size:
        word, bits, sign = _without_sign(words[some, 0], length.take(some))
        drop, more = _128 - bits, words[some, 1] ^ _ZEROS
        whole, power, sound[some] = _two_words(word << drop, (more << drop) | (word >> (_64 - drop)), sign)
        value[some] = whole / power
    some = np.flatnonzero((length > 16) & (length <= 24))
    if some.size:
        word, _, sign = _without_sign(words[some, 0], length.take(some))
        whole, power, good = _two_words(word, words[some, 1] ^ _ZEROS, sign)
        good &= np.abs(power) > 1  # the dot is there
        good &= _not_digits(_digits(words[some, 2], length.take(some) - 16)) == 0
        value[some], above = whole / power, (whole + 1) / power
        sound[some] = good & (value[some].astype(np.float32) == above.astype(np.float32))
    return value, sound


def _digits(text: Words, length: Lengths) -> Words:
    return (text ^ _ZEROS) << (_64 - (length.view(np.uint64) << _3))


def _without_sign(text: Words, length: Lengths) -> tuple[Words, Words, Words]:
    """Words with the sign replaced by a zero, the number of bits, and 16 for a minus sign."""
    word = text ^ _ZEROS
    negative = (word & _255) == _MINUS
    word -= negative * _MINUS
    return word, length.view(np.uint64) << _3, negative * _16


def _one_word(word: Words, sign: Words) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    dot, bad = _take_dot(word)
    bad |= dot >> _56  # no digit after the dot
    places = (((dot * _PLACES) >> _56) & _15) | sign
    _close_gap(word, dot - np.minimum(dot, _1))
    number = _value(word).view(np.int64).astype(np.float64)
    number /= _SIGNED_POWERS.take(places.view(np.int64))
    return number, bad == 0


def _two_words(
    head: Words, tail: Words, sign: Words
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
    """Integers, their signed power-of-ten divisors, and a validity mask."""
    dot, bad = _take_dot(tail)
    head_dot, head_bad = _take_dot(head)
    in_tail, in_head = np.minimum(dot, _1), np.minimum(head_dot, _1)
    bad |= head_bad | (dot >> _56) | (in_tail & in_head)
    places = ((dot * _PLACES) >> _56) + ((head_dot * _PLACES) >> _56) + (in_head << _3)
    power = _SIGNED_POWERS.take(((places & _15) | sign).view(np.int64))
    _close_gap(tail, dot - in_tail)
    tail |= (head >> _56) * in_tail
    _close_gap(head, (head_dot - in_head) | (np.uint64(0) - in_tail))  # a dot in the tail shifts the whole head
    whole = (_value(head) * np.uint64(10**8) + _value(tail)).view(np.int64)
    return whole, power, (bad == 0) & (whole < 2**53)


def _take_dot(word: Words) -> tuple[Words, Words]:
    """Replace the dot by a zero; return a mask of its byte, and the invalid bits."""
    dot = word & _FIFTH_BIT
    dot >>= _4
    word ^= dot * _DOT
    bad = _not_digits(word)
    bad |= word & (dot * _15)  # another character with that bit
    bad |= dot & (dot - _1)  # two dots
    return dot, bad


def _close_gap(word: Words, below: Words) -> None:
    """Move the bytes of ``word`` under the mask ``below`` up by one."""
    below = below & word
    below *= _255
    word += below


def _not_digits(word: Words) -> Words:
    bad = word + _SIX
    bad |= word
    bad &= _HIGH_HALF
    return bad


def _value(digits: Words) -> Words:
    """The integer of eight digits, first in the lowest byte, by pairwise combination."""
    value = digits * np.uint64(10 * 2**8 + 1)
    value >>= _8
    value &= _PAIRS
    value *= np.uint64(100 * 2**16 + 1)
    value >>= _16
    value &= _FOURS
    value *= np.uint64(10_000 * 2**32 + 1)
    value >>= _32
    return value
