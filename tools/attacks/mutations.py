"""Mutated and flipped bytes."""

import random
from pathlib import Path

TOKENS = [
    b"NaN",
    b"1e999",
    b"-1",
    b"\x00",
    b"\x1b[2J\x07",
    b"99999999999999999999",
    b"",
    b"\r",
    b'"',
    b"\xff\xfe",
    b"::",
]
TOKENS += [
    b"=cmd()",
    b"\xe2\x80\xae",
    b"None",
    b"nan:",
    b"{",
    b"}",
    b"[" * 300,
    b"\n" * 3,
    b" ",
    b"0x1",
    b"1" * 400,
    b"&a",
    b"*a",
]


def flip(file: Path, random: random.Random) -> int:
    """Flip one bit of a file, in place; return the position of its byte."""
    data = bytearray(file.read_bytes())
    at = random.randrange(len(data))
    data[at] ^= 1 << random.randrange(8)
    file.write_bytes(data)
    return at


def mutated(data: bytes, random: random.Random) -> bytes:
    """Some bytes, lines or tokens of the data changed."""
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        at, end = random.randrange(len(data) + 1), random.randrange(len(data) + 1)
        how = random.randrange(8)
        if how == 0 and data:
            at = min(at, len(data) - 1)
            data = data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
        elif how == 1:
            data = data[:at]
        elif how == 2:
            data = data[: min(at, end)] + data[max(at, end) :]
        elif how == 3:
            data = data[:at] + data[min(at, end) : max(at, end)][:500] + data[at:]
        elif how == 4:
            lines = data.split(b"\n")
            random.shuffle(lines)
            data = b"\n".join(lines)
        elif how == 5:
            lines = data.split(b"\n")
            lines[random.randrange(len(lines))] = random.choice(TOKENS)
            data = b"\n".join(lines)
        else:
            data = data[:at] + random.choice(TOKENS) + data[at + (how == 6) * random.randrange(6) :]
    return data
