"""The Context-Aware Ranker against plain loops and against torch's own encoder layers."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from songrank.models import ContextAwareRanker
from tests.models.small import FEATURES, lists


def build(**sizes):
    torch.manual_seed(0)
    model = ContextAwareRanker(FEATURES, **{"dim": 8, "heads": 2, "feed_forward": 12, **sizes}).double().eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter)  # biases and norms that are not 0 and 1, so that each counts
    return model


def linear(layer, x):
    rows = zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
    return [sum(w * v for w, v in zip(row, x, strict=True)) + bias for row, bias in rows]


def norm(layer, x):
    mean = sum(x) / len(x)
    spread = math.sqrt(sum((v - mean) ** 2 for v in x) / len(x) + layer.eps)
    return [(v - mean) / spread * w + b for v, w, b in zip(x, layer.weight.tolist(), layer.bias.tolist(), strict=True)]


def by_loops(model, documents):
    """Scores of one list, document by document."""
    x = [linear(model.input, document) for document in documents]
    for block in model.blocks:
        width = len(x[0]) // block.heads
        parts = [linear(block.project, norm(block.attention_norm, row)) for row in x]
        for i, mine in enumerate(parts):
            joined = []
            for head in range(block.heads):
                query, key, value = (
                    slice((p * block.heads + head) * width, (p * block.heads + head + 1) * width) for p in range(3)
                )
                logit = [
                    sum(a * b for a, b in zip(mine[query], other[key], strict=True)) / math.sqrt(width)
                    for other in parts
                ]
                weight = [math.exp(value_) for value_ in logit]
                total = sum(weight)
                joined += [
                    sum(w * other[value][d] for w, other in zip(weight, parts, strict=True)) / total
                    for d in range(width)
                ]
            x[i] = [a + b for a, b in zip(x[i], linear(block.join, joined), strict=True)]
        for i, row in enumerate(x):
            wide = [max(0.0, v) for v in linear(block.widen, norm(block.feed_norm, row))]
            x[i] = [a + b for a, b in zip(row, linear(block.narrow, wide), strict=True)]
    return [linear(model.head, norm(model.norm, row))[0] for row in x]


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_scores_are_those_of_plain_loops(heads):
    model = build(heads=heads)
    features, mask = lists(5, rows=3, columns=5, dtype=torch.float64)
    scores = model(features, mask)
    for row, present in enumerate(mask):
        expected = by_loops(model, features[row, present].tolist())
        assert scores[row, present].tolist() == pytest.approx(expected, abs=1e-10)


def test_scores_are_those_of_torchs_encoder():
    model = build()
    layers = []
    for block in model.blocks:
        layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.1, batch_first=True, norm_first=True).double().eval()
        names = {
            "self_attn.in_proj_": "project.",
            "self_attn.out_proj.": "join.",
            "linear1.": "widen.",
            "linear2.": "narrow.",
            "norm1.": "attention_norm.",
            "norm2.": "feed_norm.",
        }
        state = block.state_dict()
        layer.load_state_dict({a + end: state[b + end] for a, b in names.items() for end in ("weight", "bias")})
        layers.append(layer)
    features, mask = lists(6, dtype=torch.float64)
    x = model.input(features)
    for layer in layers:
        x = layer(x, src_key_padding_mask=~mask)
    expected = model.head(model.norm(x)).squeeze(-1)
    assert torch.allclose(model(features, mask)[mask], expected[mask], atol=1e-10, rtol=0)


def test_a_document_is_scored_in_sight_of_the_others():
    model = build()
    features, mask = lists(7, dtype=torch.float64)
    changed = features.clone()
    changed[0, 0] += 1.0
    moved = model(changed, mask) - model(features, mask)
    assert moved[0, 1:].abs().min() > 1e-6
    assert not moved[1:].any()


def test_the_sizes_and_the_start_are_those_of_the_authors():
    torch.manual_seed(0)
    model = ContextAwareRanker(num_features=136)
    block = 4 * (96 * 96 + 96) + (96 * 384 + 384) + (384 * 96 + 96) + 4 * 96
    assert sum(p.numel() for p in model.parameters()) == (136 * 96 + 96) + 2 * block + 2 * 96 + (96 + 1)
    bound = math.sqrt(6 / (96 + 96))
    for part in model.blocks[0].project.weight.chunk(3):
        assert 0.98 * bound < part.abs().max() <= bound


def test_no_document_is_left_without_one_to_attend_to(monkeypatch):
    def plain(query, key, value, attn_mask, dropout_p, is_causal):
        logit = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        return logit.masked_fill(~attn_mask, -math.inf).softmax(-1) @ value

    model = build()
    features, mask = lists(8, dtype=torch.float64)
    mask = mask & (torch.arange(4) != 2).unsqueeze(1)
    expected = model(features, mask)
    monkeypatch.setattr(F, "scaled_dot_product_attention", plain)
    scores = model(features, mask)
    assert torch.allclose(scores, expected, atol=1e-10, rtol=0)
    scores.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_dropout_acts_in_training_alone():
    model = ContextAwareRanker(FEATURES, dim=8, feed_forward=12, dropout=0.5)
    features, mask = lists()
    assert not torch.equal(model(features, mask), model(features, mask))
    model.eval()
    assert torch.equal(model(features, mask), model(features, mask))


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ValueError, match="heads is 5; expected a divisor of dim, 96"):
        ContextAwareRanker(FEATURES, heads=5)
