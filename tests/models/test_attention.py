"""Attention blocks and biases: torch's own layer, and plain float64 loops."""

import math

import numpy as np
import pytest
import torch

from songrank.models._attention import AttentionBlock, DistanceBias, GatedBlock, TimeBias, time_buckets
from tests.oracles.sequence_states import block as plain_block


@pytest.mark.parametrize("causal", [False, True])
def test_it_is_torchs_encoder_layer_with_norms_first(causal):
    torch.manual_seed(0)
    block = AttentionBlock(8, heads=2, feed_forward=16, dropout=0.0, causal=causal).eval()
    theirs = torch.nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, norm_first=True).eval()
    pairs = [
        (theirs.self_attn.in_proj_weight, block.project.weight),
        (theirs.self_attn.in_proj_bias, block.project.bias),
    ]
    pairs += [(theirs.self_attn.out_proj.weight, block.join.weight), (theirs.self_attn.out_proj.bias, block.join.bias)]
    for their, own in ((theirs.linear1, block.widen), (theirs.linear2, block.narrow)):
        pairs += [(their.weight, own.weight), (their.bias, own.bias)]
    with torch.no_grad():
        for their, own in pairs:
            their.copy_(own)
    x = torch.randn(3, 5, 8)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(5) if causal else None
    torch.testing.assert_close(block(x), theirs(x, src_mask=mask), rtol=1e-5, atol=1e-5)


def test_places_that_may_not_be_attended_to_change_nothing():
    torch.manual_seed(0)
    block = AttentionBlock(8, heads=2, feed_forward=16, dropout=0.0).eval()
    x = torch.randn(1, 4, 8)
    other = x.clone()
    other[:, 3] = 9.0
    attend = torch.tensor([True, True, True, False]).view(1, 1, 1, 4)
    torch.testing.assert_close(block(x, attend)[:, :3], block(other, attend)[:, :3])


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="^heads is 3; expected a divisor of dim, 8$"):
        AttentionBlock.check_together({"dim": 8, "heads": 3})


def test_a_bias_replaces_the_causal_mask():
    torch.manual_seed(0)
    block = AttentionBlock(8, heads=2, feed_forward=16, dropout=0.0, causal=True).double().eval()
    x, future = torch.randn(2, 5, 8).double(), torch.ones(5, 5, dtype=torch.bool).triu(1)
    bias = torch.zeros(5, 5).double().masked_fill(future, -torch.inf)
    torch.testing.assert_close(block(x, bias), block(x))
    bias = torch.randn(3, 2, 5, 5).double().masked_fill(future, -torch.inf)[:2]
    wanted = [plain_block(block.state_dict(), "", x[b].numpy(), 2, bias[b].numpy(), gated=False) for b in range(2)]
    np.testing.assert_allclose(block(x, bias).detach().numpy(), np.stack(wanted), rtol=1e-10)


def test_a_gated_block_is_that_of_plain_loops_and_starts_half_open():
    torch.manual_seed(0)
    block = GatedBlock(8, heads=2, feed_forward=12, dropout=0.0, causal=True).double().eval()
    x, causal = torch.randn(1, 5, 8).double(), np.where(np.triu(np.ones((5, 5)), 1), -np.inf, 0.0)
    half = torch.sigmoid(block.attention_gate(x))
    assert torch.equal(half, torch.full_like(half, 0.5))
    for parameter in block.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    wanted = plain_block(block.state_dict(), "", x[0].numpy(), 2, np.stack([causal, causal]), gated=True)
    np.testing.assert_allclose(block(x)[0].detach().numpy(), wanted, rtol=1e-9)


def test_dropout_of_a_gated_block_is_of_its_parts():
    torch.manual_seed(0)
    block = GatedBlock(8, heads=2, feed_forward=12, dropout=0.4)
    x = torch.randn(2, 5, 8)
    assert not torch.equal(block(x), block(x))
    assert torch.equal(block.eval()(x), block(x))


@pytest.mark.parametrize("rows", [1, 4, 7])
def test_a_distance_has_one_bias_anywhere(rows):
    bias = DistanceBias(heads=2, longest=4)
    assert torch.equal(bias.weight, torch.zeros(2, 5))
    torch.nn.init.normal_(bias.weight)
    found = bias(rows)
    for head in range(2):
        for i in range(rows):
            for j in range(rows):
                wanted = -math.inf if j > i else bias.weight[head, min(i - j, 4)].item()
                assert found[head, i, j].item() == wanted


def test_time_buckets_are_those_of_the_formula_for_any_unit():
    random = np.random.default_rng(0)
    time = np.sort(np.concatenate([[0, 0, 1, 2], 10 ** random.uniform(0, 18, 40)]).astype(np.int64))
    found = time_buckets(torch.from_numpy(time[None]))[0]
    for i, late in enumerate(time.tolist()):
        for j, early in enumerate(time.tolist()):
            assert int(found[i, j]) == min(127, math.floor(math.log(max(1, late - early)) / 0.301))
    assert int(found.max()) == 127
    bias = TimeBias()
    torch.nn.init.normal_(bias.weight)
    assert torch.equal(bias(found[None])[0, 0], bias.weight[found])
