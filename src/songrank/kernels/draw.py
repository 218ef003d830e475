"""A batch of slates of a catalogue, drawn by one kernel: the numbers of :class:`songrank.SlateSampler`, bit for bit."""

import triton
import triton.language as tl


@triton.jit
def _bits(key, counter):
    """SplitMix64 at key + (counter + 1)·φ, as ``functional.hashing.random_bits``."""
    x = key.to(tl.uint64) + (counter.to(tl.uint64) + 1) * 0x9E3779B97F4A7C15
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    return x ^ (x >> 31)


@triton.jit
def _fraction(key, place):
    """In [0, 1): 32 bits of the number, the lower ones for even places, as ``sampling.item_draws.random_fractions``."""
    bits = _bits(key, place // 2)
    half = tl.where(place % 2 == 0, bits & 0xFFFFFFFF, bits >> 32).to(tl.uint32).to(tl.int32, bitcast=True)
    return half.to(tl.float64) * (1.0 / 4294967296.0) + 0.5


@triton.jit
def draw_rows(
    order, at, keys, first_query, first_pair,
    num_relevant, list_size, ideal_dcg, query_weight,
    indptr, pair_item, pair_label, taken_indptr, taken_item,
    query, item, label, mask, pair, out_size, out_relevant, out_ideal, out_weight,
    R: tl.constexpr, columns, DEPTH: tl.constexpr, WEIGHTED: tl.constexpr, ALL: tl.constexpr,
    BR: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """One row of a batch; entries of ``order`` below 0 are padding, drawn as their complement and then masked."""
    b = tl.program_id(0).to(tl.int64)
    named = tl.load(order + tl.load(at) + b)
    real = named >= 0
    q = tl.where(real, named, -1 - named)
    local = q - first_query
    total, size = tl.load(num_relevant + local), tl.load(list_size + local)
    available = size - total
    kept = tl.minimum(total, R)
    others = tl.minimum(available, columns - R)

    # Floyd's algorithm, a step for each relevant column.
    j = tl.arange(0, BR)
    last = total - kept + j
    guess = (_fraction(_bits(tl.load(keys), q), j) * (last + 1).to(tl.float64)).to(tl.int64)
    picked = tl.full((BR,), -1, tl.int64)
    for step in range(0 if ALL else R):
        wanted = tl.sum(tl.where(j == step, guess, 0))
        fallback = tl.sum(tl.where(j == step, last, 0))
        repeated = tl.max((picked == wanted).to(tl.int32))
        picked = tl.where(j == step, tl.where(repeated > 0, fallback, wanted), picked)
    if ALL:
        picked = j.to(tl.int64)

    # The irrelevant ones: a turned circle of places, cut into stretches.
    c = tl.arange(0, BC)
    key = _bits(tl.load(keys + 1), q)
    n, m = available.to(tl.float64), tl.maximum(others, 1).to(tl.float64)
    slot = tl.minimum(tl.maximum(c - kept, 0), others).to(tl.float64)
    after = tl.minimum(tl.maximum(c + 1 - kept, 0), others).to(tl.float64)
    cut = tl.floor(slot * n / m)
    turn = tl.floor(_fraction(key, columns + tl.zeros((1,), tl.int32)) * n)
    turned = tl.floor((tl.floor(after * n / m) - cut) * _fraction(key, c)) + cut
    place = (turned + turn - tl.where(turned >= n - turn, n, 0.0)).to(tl.int64)
    start, stop = tl.load(taken_indptr + local), tl.load(taken_indptr + local + 1)
    inside = c < columns
    position = tl.zeros((BC,), tl.int64) + start - 1
    for halving in tl.static_range(DEPTH):
        candidate = position + (1 << (DEPTH - 1 - halving))
        there = inside & (candidate < stop)
        taken = tl.load(taken_item + candidate, mask=there, other=0).to(tl.int64)
        position = tl.where(there & (taken - candidate <= place - start), candidate, position)
    found = place + position + 1 - start

    present = c < kept + others
    begin = b * columns
    relevant = j < kept
    tl.store(item + begin + c, tl.where(present, found, 0), mask=inside & (c >= kept))
    tl.store(label + begin + c, tl.zeros((BC,), tl.float32), mask=inside & (c >= kept))
    tl.store(mask + begin + c, present & real, mask=inside)
    row = tl.load(indptr + local) + picked
    tl.store(item + begin + j, tl.load(pair_item + row, mask=relevant, other=0).to(tl.int64), mask=relevant)
    tl.store(label + begin + j, tl.load(pair_label + row, mask=relevant, other=0.0), mask=relevant)
    tl.store(pair + b * R + j, tl.where(relevant & real, row + first_pair, -1), mask=j < R)
    weight = real.to(tl.float32)
    if WEIGHTED:
        weight *= tl.load(query_weight + local)
    tl.store(query + b, q)
    tl.store(out_size + b, size)
    tl.store(out_relevant + b, total)
    tl.store(out_ideal + b, tl.load(ideal_dcg + local))
    tl.store(out_weight + b, weight)
