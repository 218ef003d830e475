"""The states of a sequence model, by plain loops in float64 over its weights."""

import math

import numpy as np


def states(weights, items, times, *, heads, blocks, positions, relative, time_bias, gates, embedding_norm):
    """[n + 1, dim]: the states before the first and after each of n items; ``weights`` is a state dict."""
    get = {name: value.double().numpy() for name, value in weights.items()}
    rows = [get["start"]]
    for place, item in enumerate(items):
        row = get["item.weight"][item]
        if positions == "start":
            row = row + get["place"][place]
        if positions == "end":
            row = row + get["place"][len(items) - 1 - place]
        rows.append(row)
    x = np.stack(rows)
    if embedding_norm:
        x = norm(get, "input_norm", x)
    clock = [times[0] if times else 0, *times]
    for number in range(blocks):
        bias = np.full((heads, len(x), len(x)), -np.inf)
        for head in range(heads):
            for i in range(len(x)):
                for j in range(i + 1):
                    bias[head, i, j] = 0.0
                    if relative:
                        bias[head, i, j] += get[f"relative.{number}.weight"][head, i - j]
                    if time_bias:
                        bucket = math.floor(math.log(max(1, clock[i] - clock[j])) / 0.301)
                        bias[head, i, j] += get[f"passed.{number}.weight"][min(bucket, 127)]
        x = block(weights, f"blocks.{number}.", x, heads, bias, gated=gates)
    return norm(get, "norm", x)


def block(weights, prefix, x, heads, bias, *, gated):
    """[n, dim]: rows x after an attention block with biases [heads, n, n], row by row."""
    get = {name.removeprefix(prefix): v.double().numpy() for name, v in weights.items() if name.startswith(prefix)}
    dim = x.shape[1]
    size = dim // heads
    query, key, value = np.split(linear(get, "project", norm(get, "attention_norm", x)), 3, axis=1)
    found = np.zeros_like(x)
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        for i in range(len(x)):
            scores = [query[i, part] @ key[j, part] / math.sqrt(size) + bias[head, i, j] for j in range(len(x))]
            shares = np.exp(np.array(scores) - max(scores))
            shares /= shares.sum()
            found[i, part] = sum(share * value[j, part] for j, share in enumerate(shares))
    found = linear(get, "join", found)
    x = x + (sigmoid(linear(get, "attention_gate", x)) * found if gated else found)
    rows = norm(get, "feed_norm", x)
    wide = linear(get, "widen", rows)
    inner = wide * sigmoid(wide) * linear(get, "gate", rows) if gated else np.maximum(wide, 0.0)
    found = linear(get, "narrow", inner)
    return x + (sigmoid(linear(get, "feed_gate", x)) * found if gated else found)


def linear(get, name, x):
    return x @ get[f"{name}.weight"].T + get[f"{name}.bias"]


def norm(get, name, x):
    centred = x - x.mean(1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * get[f"{name}.weight"] + get[f"{name}.bias"]


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))
