"""The transformer over words against plain loops, and what it does with padding, long texts and given embeddings."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from songrank.models import TextTransformer
from tests.models.small import tokens

LENGTH = 12


def small(**sizes):
    torch.manual_seed(0)
    sizes = {"vocabulary": 30, "num_labels": 6, "dim": 8, "heads": 2, "length": LENGTH, "feed_forward": 10, **sizes}
    model = TextTransformer(**sizes).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or name == "place":  # not 1 and 0, and far enough from 0 to be seen
                parameter.add_(torch.randn_like(parameter))
    return model


def linear(state, name, rows):
    weight, bias = state[f"{name}.weight"], state[f"{name}.bias"]
    return [
        [b + sum(w * x for w, x in zip(ws, row, strict=True)) for ws, b in zip(weight, bias, strict=True)]
        for row in rows
    ]


def norm(state, name, rows):
    found = []
    for row in rows:
        mean = sum(row) / len(row)
        deviation = math.sqrt(sum((x - mean) ** 2 for x in row) / len(row) + 1e-5)
        scaled = zip(row, state[f"{name}.weight"], state[f"{name}.bias"], strict=True)
        found.append([(x - mean) / deviation * weight + bias for x, weight, bias in scaled])
    return found


def attention(state, block, rows, heads):
    dim = len(rows[0])
    size = dim // heads
    projected = linear(state, f"{block}.project", norm(state, f"{block}.attention_norm", rows))
    joined = [[] for _ in rows]
    for first in range(0, dim, size):
        query, key, value = ([row[at + first : at + first + size] for row in projected] for at in (0, dim, 2 * dim))
        for place, asked in enumerate(query):
            weight = [math.exp(sum(a * b for a, b in zip(asked, k, strict=True)) / math.sqrt(size)) for k in key]
            joined[place] += [
                sum(w * v[d] for w, v in zip(weight, value, strict=True)) / sum(weight) for d in range(size)
            ]
    return linear(state, f"{block}.join", joined)


def add(rows, others):
    return [[a + b for a, b in zip(row, other, strict=True)] for row, other in zip(rows, others, strict=True)]


def by_loops(model, text, heads=2):
    """Scores of one text without padding, word by word."""
    state = {key: value.tolist() for key, value in model.state_dict().items()}
    text = text[: model.length]
    x = add([state["embedding.weight"][word] for word in text], state["place"][: len(text)])
    for number in range(len(model.blocks)):
        block = f"blocks.{number}"
        x = add(x, attention(state, block, x, heads))
        wide = linear(state, f"{block}.widen", norm(state, f"{block}.feed_norm", x))
        x = add(x, linear(state, f"{block}.narrow", [[max(0.0, cell) for cell in row] for row in wide]))
    last = norm(state, "norm", x)
    z = [sum(row[d] for row in last) / len(text) for d in range(len(last[0]))]
    return linear(state, "head", [z])[0]


@pytest.mark.parametrize("length", [4, LENGTH])
def test_scores_are_those_of_plain_loops(length):
    model = small(length=length).double()
    texts = tokens(5)
    scores = model.score_all(texts)
    assert scores.std() > 0.1
    for row, text in enumerate(texts.tolist()):
        words = [word for word in text if word]
        if words:
            assert scores[row].tolist() == pytest.approx(by_loops(model, words), abs=1e-10)


@settings(max_examples=30, deadline=None)
@given(text=st.lists(st.integers(1, 29), max_size=LENGTH + 3), padding=st.integers(1, 9), company=st.integers(0, 3))
def test_padding_and_company_change_nothing(text, padding, company):
    model = small().double()
    alone = torch.tensor([text or [0]])
    texts = torch.cat([F.pad(alone, (0, padding)), torch.randint(30, (company, alone.shape[1] + padding))])
    assert torch.allclose(model.score_all(texts)[:1], model.score_all(alone), atol=1e-10, rtol=0)


def test_whatever_vector_padding_has_is_not_seen():
    model, texts = small().double(), tokens(5)
    scores = model.score_all(texts)
    with torch.no_grad():
        model.embedding.weight[0] = 100.0
    assert torch.allclose(model.score_all(texts), scores, atol=1e-10, rtol=0)


def test_a_text_without_words_has_the_biases_of_the_labels():
    model = small()
    scores = model.score_all(torch.zeros(2, 4, dtype=torch.int64))
    assert torch.equal(scores, model.head.bias.expand(2, -1))
    scores.sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


def test_the_order_of_words_counts_and_words_beyond_the_length_do_not():
    model = small().double()
    text = torch.randint(1, 30, (1, LENGTH + 4))
    scores = model.score_all(text)
    assert torch.equal(model.score_all(text[:, :LENGTH]), scores)
    assert not torch.allclose(model.score_all(text.flip(1)), scores)
    assert not torch.allclose(model.score_all(text[:, : LENGTH - 1]), scores)


def test_the_words_that_pad_learn_nothing():
    model = small().train()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        model.score_all(tokens(5)).square().sum().backward()
        optimiser.step()
    assert not model.embedding.weight[0].any()


def test_given_embeddings_are_copied_and_may_be_kept():
    vectors = torch.randn(30, 8)
    original = vectors.clone()
    model, frozen = small(embeddings=vectors), small(embeddings=vectors, freeze=True)
    assert torch.equal(model.embedding.weight[1:], original[1:])
    assert not model.embedding.weight[0].any()
    for one in (model, frozen):
        one.score_all(tokens(5)).sum().backward()
    assert model.embedding.weight.grad is not None
    assert frozen.embedding.weight.grad is None
    assert torch.equal(vectors, original)


@pytest.mark.parametrize("rule", ["whether they differ", "which comes first"])
def test_it_learns_what_no_sum_over_words_tells(rule):
    """Of words 2 and 3 a text has two, somewhere among others."""
    torch.manual_seed(1)
    texts, markers = torch.randint(4, 12, (768, 6)), torch.randint(2, 4, (768, 2))
    if rule == "which comes first":
        markers[:, 1] = 5 - markers[:, 0]
        label = markers[:, 0] - 2
    else:
        label = (markers[:, 0] != markers[:, 1]).long()
    texts.scatter_(1, torch.rand(768, 6).topk(2).indices.sort(1).values, markers)
    model = TextTransformer(12, 2, dim=16, blocks=1, heads=2, length=6, dropout=0.0)
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(100):
        optimiser.zero_grad()
        F.cross_entropy(model.score_all(texts[:512]), label[:512]).backward()
        optimiser.step()
    assert (model.eval().score_all(texts[512:]).argmax(1) == label[512:]).float().mean() > 0.95


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"freeze": True}, "freeze is True; expected embeddings, or freeze=False"),
        ({"embeddings": torch.zeros(3, 8)}, r"embeddings has shape \[3, 8\]; expected \[vocabulary, dim\]"),
        ({"heads": 3}, "heads is 3; expected a divisor of dim, 8"),
        ({"length": 0}, "length is 0"),
        ({"blocks": 0}, "blocks is 0"),
        ({"feed_forward": 0}, "feed_forward is 0"),
        ({"vocabulary": 1}, "vocabulary is 1"),
        ({"dropout": -0.1}, "dropout is -0.1"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(sizes, words):
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        small(**sizes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("texts", [torch.zeros(3, dtype=torch.int64), torch.zeros(3, 4), torch.zeros(3, 0).long()])
def test_texts_that_are_not_word_numbers_are_refused(texts):
    with pytest.raises((ValueError, TypeError), match="query is .*; expected tokens"):
        small().score_all(texts)
