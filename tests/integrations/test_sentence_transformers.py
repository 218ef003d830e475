"""Losses for sentence-transformers: against own loops with stand-ins for the models, and in the real trainers."""

import math

import pytest
import torch

from songrank import KSONG, SONG, ListwiseCE, Relevance, Slate, SlateSampler, SoftmaxCE
from songrank.core.errors import DataError
from songrank.integrations.sentence_transformers import RerankingLoss, RetrievalLoss

from .small_lists import DOCUMENTS, QUERIES, TENSORS, Embedder, Scorer, relevance


def gradient(value, model):
    model.table.grad = None
    value.backward()
    return model.table.grad.clone()


def test_whole_lists_give_the_loss_and_the_gradient_of_an_own_loop():
    model = Scorer()
    found = RerankingLoss(model, SONG(0, gamma=1.0))([QUERIES, DOCUMENTS], TENSORS)
    values = []
    for row, (texts, labels) in enumerate(zip(DOCUMENTS, TENSORS, strict=True)):
        slate = Slate.from_batch(labels.unsqueeze(0), torch.tensor([row]))
        values.append(SONG(0, gamma=1.0)(model.of(row, texts).unsqueeze(0), slate))
    expected = torch.stack(values).mean()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradient(found, model), gradient(expected, model))


def test_a_forward_pass_in_parts_changes_nothing_and_prompts_are_passed():
    whole, parts = Scorer(), Scorer()
    one = RerankingLoss(whole, ListwiseCE(0, gamma=1.0), activation=torch.tanh)
    other = RerankingLoss(parts, ListwiseCE(0, gamma=1.0), activation=torch.tanh, mini_batch_size=4)
    first = one([QUERIES, DOCUMENTS], TENSORS, prompt="p: ", task="t")
    second = other([QUERIES, DOCUMENTS], TENSORS, prompt="p: ", task="t")
    torch.testing.assert_close(first, second)
    torch.testing.assert_close(gradient(first, whole), gradient(second, parts))
    assert whole.calls == [(14, "p: ", "t")]
    assert [count for count, *_ in parts.calls] == [4, 4, 4, 2]


def test_sampled_lists_score_the_documents_of_the_sampler_and_remember_their_pairs():
    model, lists = Scorer(), relevance()
    loss = RerankingLoss(model, KSONG(lists.num_pairs, 4, k=2), SlateSampler(lists, length=3, k=2))
    own, sampler = KSONG(lists.num_pairs, 4, k=2), SlateSampler(lists, length=3, k=2)
    start = [0, 5, 8, 12]
    for step, batch in enumerate(([0, 2], [3, 1], [2, 0])):
        inputs = [[column[q] for q in batch] for column in (QUERIES, DOCUMENTS)]
        found = loss([*inputs, batch], [TENSORS[q] for q in batch])
        slate = sampler.draw(torch.tensor(batch), epoch=step)
        scores = torch.zeros(slate.label.shape)
        for row, q in enumerate(batch):
            texts = [DOCUMENTS[q][int(at) - start[q]] for at in slate.item[row][slate.mask[row]]]
            scores[row, : len(texts)] = model.of(q, texts)
        expected = own(scores, slate)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(gradient(found, model), gradient(expected, model))
    assert own.u.read().isfinite().any()
    assert [count for count, *_ in model.calls] == [6, 5, 6]  # three documents per list, of q3 all two
    for name, values in own.state_dict().items():
        torch.testing.assert_close(loss.memory_state()[f"loss.{name}"], values)


def test_an_evaluation_scores_whole_lists_and_leaves_the_memory():
    model, lists = Scorer(), relevance()
    loss = RerankingLoss(model, SONG(lists.num_pairs), SlateSampler(lists, length=3))
    loss([QUERIES, DOCUMENTS, [0, 1, 2, 3]], TENSORS)
    before = loss.memory_state()
    with torch.no_grad():
        with_number = loss([QUERIES, DOCUMENTS, [7, 7, 7, 7]], TENSORS)  # numbers of another set
        without = loss([QUERIES, DOCUMENTS], TENSORS)
    assert torch.equal(with_number, without)
    assert -1.0 <= float(without) < 0.0
    assert model.calls[-1][0] == 14
    for name, values in loss.memory_state().items():
        assert torch.equal(values, before[name]), name


LISTS = [QUERIES, DOCUMENTS]


@pytest.mark.parametrize(
    ("inputs", "labels", "message"),
    [
        ([QUERIES], TENSORS, "the data set has 1 columns besides the labels; expected query, documents and labels"),
        (LISTS, TENSORS, r"the data set has no list number; add a column: dataset.add_column"),
        ([QUERIES, QUERIES, [0, 1, 2, 3]], TENSORS, "the documents of a query are one text"),
        ([*LISTS, [0, 2, 1, 3]], TENSORS, "list 2 of the batch is not list 2 of the sampler; build the relevance"),
        ([*LISTS, [0, 1, 2, 4]], TENSORS, "the number of a list is 4; expected 0 to 3"),
        ([*LISTS, [0, 1, 2, 3]], [1 - y.clamp(max=1) for y in TENSORS], "list 0 of the batch is not list 0"),
    ],
)
def test_wrong_columns_are_named(inputs, labels, message):
    lists = relevance()
    loss = RerankingLoss(Scorer(), SONG(lists.num_pairs), SlateSampler(lists, length=3))
    with pytest.raises(DataError, match=message):
        loss(inputs, labels)
    assert loss.steps == 0
    assert not loss.loss.u.read().isfinite().any()


def test_a_loss_with_memory_needs_its_lists():
    with pytest.raises(ValueError, match=r"sampler is None; expected .* SONG keeps memory \(gamma=0.1\)"):
        RerankingLoss(Scorer(), SONG(6))
    with pytest.raises(ValueError, match="relevance is None; expected .* KSONG keeps a threshold per query"):
        RetrievalLoss(Embedder(), KSONG(6, 4, k=2, gamma=1.0))
    with pytest.raises(ValueError, match="sampler.k is None; expected the k of the loss, 2"):
        RerankingLoss(Scorer(), KSONG(6, 4, k=2), SlateSampler(relevance(), length=3))
    with pytest.raises(ValueError, match="sampler.relevance is .*; expected lists"):
        RerankingLoss(Scorer(), SONG(6), SlateSampler(Relevance.from_pairs([0, 1], [0, 1])))


def test_a_model_with_two_outputs_is_rejected():
    model = Scorer()
    model.of_pairs = model.forward
    model.forward = lambda tokens: {"scores": model.of_pairs(tokens)["scores"].expand(-1, 2)}
    with pytest.raises(ValueError, match="model is '2 outputs per text'; expected a cross-encoder with num_labels=1"):
        RerankingLoss(model, SONG(0, gamma=1.0))(LISTS, TENSORS)


# Retrieval: ids of queries are 0 to 3, of documents 0 to 7; row 4 + d of the table is the vector of document d.
FOUND = Relevance.from_pairs(query=[0, 0, 1, 2, 3], item=[1, 4, 4, 0, 7], label=[2.0, 1.0, 1.0, 1.0, 1.0], num_items=8)


def features(*columns):
    return [{"input_ids": torch.tensor(column)} for column in columns]


def cosine(first, second):
    dot = sum(a * b for a, b in zip(first, second, strict=True))
    return dot / math.sqrt(sum(a * a for a in first)) / math.sqrt(sum(b * b for b in second))


def test_candidates_of_a_batch_without_relevance_are_those_of_in_batch_softmax():
    """Cross-entropy of the own document among all of the batch, with hard negatives, in plain loops."""
    model = Embedder()
    found = RetrievalLoss(model, SoftmaxCE())(features([0, 1, 2], [5, 8, 4], [9, 10, 11]))
    rows = model.table.tolist()
    total = 0.0
    for query, own in ((0, 5), (1, 8), (2, 4)):
        scores = [20 * cosine(rows[query], rows[row]) for row in (5, 8, 4, 9, 10, 11)]
        total += math.log(sum(math.exp(s) for s in scores)) - 20 * cosine(rows[query], rows[own])
    assert found.item() == pytest.approx(total / 3, rel=1e-5)


def test_relevance_merges_repeated_texts_and_finds_all_relevant_documents():
    """The batch has query 0 twice and document 4 twice; document 4 is relevant to queries 0 and 1."""
    model, seen = Embedder(), {}

    class Spy(SONG):
        def forward(self, scores, slate):
            seen.update(scores=scores, slate=slate)
            return super().forward(scores, slate)

    loss = RetrievalLoss(model, Spy(FOUND.num_pairs), FOUND, scale=2.0)
    ids = torch.tensor([[0, 1, 6], [1, 4, 2], [0, 4, 3]])
    value = loss(features(ids[:, 0].tolist(), (ids[:, 1] + 4).tolist(), (ids[:, 2] + 4).tolist()), ids)
    slate, rows = seen["slate"], model.table.tolist()
    slate.check(seen["scores"].detach())
    documents = [1, 2, 3, 4, 6]
    assert slate.query.tolist() == [0, 1]
    assert slate.label.tolist() == [[2.0, 0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0]]
    for row, query in enumerate((0, 1)):
        expected = [2 * cosine(rows[query], rows[4 + document]) for document in documents]
        assert seen["scores"][row].tolist() == pytest.approx(expected, rel=1e-5)
    assert slate.list_size.tolist() == [8, 8]
    assert slate.num_relevant.tolist() == [2, 1]
    assert sorted(slate.pair[0].tolist()) == FOUND.pair_index([0, 0], [1, 4]).tolist()
    assert loss.loss.u.read().isfinite().tolist() == [True, True, True, False, False]
    assert gradient(value, model).abs().sum() > 0


def test_an_evaluation_of_retrieval_leaves_the_memory():
    loss = RetrievalLoss(Embedder(), SONG(FOUND.num_pairs), FOUND)
    with torch.no_grad():
        value = loss(features([0, 1], [5, 8]))
    assert -1.0 <= float(value) < 0.0
    assert not loss.loss.u.read().isfinite().any()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "the data set has no labels; expected a column label"),
        (torch.tensor([0, 1]), r"have shape \[2\] and type torch.int64; expected 2 whole numbers per row"),
        (torch.tensor([[0.0, 1.0], [1.0, 4.0]]), "type torch.float32; expected 2 whole numbers"),
        (torch.tensor([[0, 1], [4, 4]]), "the id of a query is 4; expected 0 to 3"),
        (torch.tensor([[0, 1], [1, -1]]), "the id of a document is -1; expected 0 to 7"),
    ],
)
def test_wrong_ids_are_named(labels, message):
    with pytest.raises(DataError, match=message):
        RetrievalLoss(Embedder(), SONG(FOUND.num_pairs), FOUND)(features([0, 1], [5, 8]), labels)


def test_a_relevance_of_another_kind_is_rejected():
    with pytest.raises(ValueError, match="expected pairs of queries and documents"):
        RetrievalLoss(Embedder(), SONG(6), relevance())
    barred = Relevance.from_pairs([0], [1], num_items=4, exclude=([0], [2]))
    with pytest.raises(ValueError, match="expected pairs without exclude"):
        RetrievalLoss(Embedder(), SONG(1), barred)


# The real trainers, with models built here.


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    for package in ("sentence_transformers", "datasets", "accelerate"):
        pytest.importorskip(package, reason="needs pip install 'sentence-transformers[train]'")
    from tests.docs.test_code_blocks import save_tiny_bert

    return save_tiny_bert(tmp_path_factory.mktemp("bert"))


def texts(count):
    """Queries, lists and labels; of synthetic words."""
    import random

    from tests.examples.test_loops import load

    chance = random.Random(0)
    questions = [load("cross_encoder").synthetic_question(chance) for _ in range(count)]
    return {
        "query": [q.query for q in questions],
        "documents": [q.documents for q in questions],
        "labels": [q.labels.tolist() for q in questions],
    }


QUIET = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "per_device_train_batch_size": 8}


def rerank(bert, folder, resume=None):
    from datasets import Dataset
    from sentence_transformers import CrossEncoder
    from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments

    from songrank.integrations.transformers import MemoryCallback

    torch.manual_seed(4)
    data = Dataset.from_dict(texts(40))
    lists = Relevance.from_lists([y for row in data["labels"] for y in row], [len(row) for row in data["labels"]])
    encoder = CrossEncoder(bert, num_labels=1)
    loss = RerankingLoss(encoder, KSONG(lists.num_pairs, 40, k=3), SlateSampler(lists, length=4, k=3))
    steps = {"max_steps": 9, "save_steps": 4, "eval_strategy": "steps", "eval_steps": 3, "learning_rate": 1e-3}
    trainer = CrossEncoderTrainer(
        encoder,
        CrossEncoderTrainingArguments(str(folder), **QUIET, **steps),
        data.add_column("list", list(range(40))),
        eval_dataset=data,
        loss=loss,
        callbacks=[MemoryCallback(loss)],
    )
    trainer.train(resume_from_checkpoint=resume)
    return encoder, loss, [log["eval_loss"] for log in trainer.state.log_history if "eval_loss" in log]


def test_a_reranker_that_resumes_from_a_checkpoint_ends_where_an_uninterrupted_one_does(bert, tmp_path):
    encoder, loss, losses = rerank(bert, tmp_path)
    again, resumed, _ = rerank(bert, tmp_path, str(tmp_path / "checkpoint-4"))
    for name, values in encoder.state_dict().items():
        assert torch.equal(again.state_dict()[name], values), name
    for name, values in loss.memory_state().items():
        assert torch.equal(resumed.memory_state()[name], values), name
    assert int(loss.steps) == 9
    assert loss.loss.u.read().isfinite().any()
    assert losses[-1] < losses[0] < 0.0  # NDCG rises


def test_a_retriever_learns_in_the_trainer_and_its_card_names_the_loss(bert, tmp_path):
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    torch.manual_seed(4)
    word = Transformer(bert)
    encoder = SentenceTransformer(modules=[word, Pooling(word.get_embedding_dimension())])
    rows = texts(48)
    best = [max(range(len(y)), key=y.__getitem__) for y in rows["labels"]]
    data = {
        "query": rows["query"],
        "document": [row[at] for row, at in zip(rows["documents"], best, strict=True)],
        "label": [[n, n] for n in range(48)],
    }
    relevance = Relevance.from_pairs(range(48), range(48))
    loss = RetrievalLoss(encoder, SONG(48, surrogate="exponential"), relevance)
    arguments = SentenceTransformerTrainingArguments(
        str(tmp_path), **QUIET, num_train_epochs=6, learning_rate=3e-3, save_strategy="no"
    )
    held = Dataset.from_dict({name: data[name] for name in ("query", "document")})
    trainer = SentenceTransformerTrainer(encoder, arguments, Dataset.from_dict(data), held, loss)
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < before - 0.05
    assert loss.loss.log_u.read().isfinite().all()
    encoder.save(str(tmp_path / "model"))
    card = (tmp_path / "model" / "README.md").read_text()
    assert "RetrievalLoss" in card
    assert "Relevance(catalogue, 48 queries, 48 items, 48 pairs)" in card
