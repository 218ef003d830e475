"""XML-CNN against plain loops, and what it does with short texts, padding and given embeddings."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from songrank.models import XMLCNN
from songrank.models.xml_cnn import dynamic_max_pool
from tests.models.small import tokens


def small(**sizes):
    torch.manual_seed(0)
    sizes = {"vocabulary": 30, "num_labels": 6, "dim": 5, "filters": 4, "pools": 3, "bottleneck": 7, **sizes}
    return XMLCNN(**sizes).eval()


def pooled_by_loops(answers, pools):
    """The largest of each piece of one filter's answers, all pieces spelled out."""
    n = len(answers)
    return [max(answers[math.floor(j * n / pools) : math.ceil((j + 1) * n / pools)]) for j in range(pools)]


@settings(max_examples=60, deadline=None)
@given(lengths=st.lists(st.integers(1, 17), min_size=1, max_size=4), pools=st.integers(1, 9), seed=st.integers(0, 999))
def test_pooling_is_that_of_plain_loops_and_of_torch_on_each_text(lengths, pools, seed):
    values = torch.randn(len(lengths), 3, 17, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    pooled = dynamic_max_pool(values, torch.tensor(lengths), pools)
    for row, n in enumerate(lengths):
        for channel in range(3):
            assert pooled[row, channel].tolist() == pooled_by_loops(values[row, channel, :n].tolist(), pools)
        assert torch.equal(pooled[row], F.adaptive_max_pool1d(values[row, :, :n], pools))


def test_pooling_passes_gradients_to_the_largest():
    values = torch.randn(2, 3, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: dynamic_max_pool(x, torch.tensor([7, 4]), 3), (values,))


def by_loops(model, text):
    """Scores of one text without padding, word by word."""
    state = {key: value.tolist() for key, value in model.state_dict().items()}
    empty, found = [0.0] * model.embedding.embedding_dim, []
    for place, window in enumerate(model.windows):
        words = [empty] * (window - 1) + [state["embedding.weight"][word] for word in text] + [empty] * (window - 1)
        for weight, bias in zip(
            state[f"convolutions.{place}.weight"], state[f"convolutions.{place}.bias"], strict=True
        ):
            answers = [
                bias + sum(weight[d][w] * words[at + w][d] for w in range(window) for d in range(len(empty)))
                for at in range(len(words) - window + 1)
            ]
            found += [max(0.0, largest) for largest in pooled_by_loops(answers, model.pools)]
    z = [
        max(0.0, bias + sum(a * b for a, b in zip(row, found, strict=True)))
        for row, bias in zip(state["bottleneck.weight"], state["bottleneck.bias"], strict=True)
    ]
    return [
        bias + sum(a * b for a, b in zip(row, z, strict=True))
        for row, bias in zip(state["head.weight"], state["head.bias"], strict=True)
    ]


def test_scores_are_those_of_plain_loops():
    model = small(windows=(2, 4, 8)).double()
    texts = tokens(5)
    scores = model.score_all(texts)
    for row, text in enumerate(texts.tolist()):
        words = [word for word in text if word]
        if words:
            assert scores[row].tolist() == pytest.approx(by_loops(model, words), abs=1e-10)


def test_padding_changes_nothing():
    model = small().double()
    texts = tokens(5)
    wider = F.pad(texts, (0, 9))
    assert torch.allclose(model.score_all(wider), model.score_all(texts), atol=1e-10, rtol=0)
    assert model.score_all(torch.zeros(2, 4, dtype=torch.int64)).isfinite().all()


def test_the_words_that_pad_learn_nothing():
    model = small().train()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        model.score_all(tokens(5)).square().sum().backward()
        optimiser.step()
    assert not model.embedding.weight[0].any()


def test_given_embeddings_are_copied_and_may_be_kept():
    vectors = torch.randn(30, 5)
    original = vectors.clone()
    model, frozen = small(embeddings=vectors), small(embeddings=vectors, freeze=True)
    assert torch.equal(model.embedding.weight[1:], original[1:])
    assert not model.embedding.weight[0].any()
    for one in (model, frozen):
        one.score_all(tokens(5)).sum().backward()
    assert model.embedding.weight.grad is not None
    assert frozen.embedding.weight.grad is None
    assert torch.equal(vectors, original)


def test_the_sizes_are_those_of_the_paper():
    model = XMLCNN(vocabulary=50, num_labels=11)
    shapes = {key: tuple(value.shape) for key, value in model.named_parameters() if key.endswith("weight")}
    assert shapes == {
        "embedding.weight": (50, 300),
        "convolutions.0.weight": (128, 300, 2),
        "convolutions.1.weight": (128, 300, 4),
        "convolutions.2.weight": (128, 300, 8),
        "bottleneck.weight": (512, 3 * 128 * 8),
        "head.weight": (11, 512),
    }


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"freeze": True}, "freeze is True; expected embeddings, or freeze=False"),
        ({"embeddings": torch.zeros(3, 5)}, r"embeddings has shape \[3, 5\]; expected \[vocabulary, dim\]"),
        ({"windows": ()}, "windows is"),
        ({"vocabulary": 1}, "vocabulary is 1"),
        ({"dropout": -0.1}, "dropout is -0.1"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(sizes, words):
    with pytest.raises((ValueError, TypeError), match=words):
        small(**sizes)


@pytest.mark.parametrize("texts", [torch.zeros(3, dtype=torch.int64), torch.zeros(3, 4), torch.zeros(3, 0).long()])
def test_texts_that_are_not_word_numbers_are_refused(texts):
    with pytest.raises((ValueError, TypeError), match="query is .*; expected tokens"):
        small().score_all(texts)
