"""The attention block against torch's encoder layer."""

import pytest
import torch

from songrank.models._attention import AttentionBlock


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
