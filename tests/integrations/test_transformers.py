"""Losses for the Trainer of Hugging Face: its batches, gradient accumulation, and memory in its checkpoints."""

from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("transformers")

from songrank import KSONG, SONG, ListwiseCE, Relevance, Slate
from songrank.core.errors import DataError
from songrank.integrations.transformers import MEMORY_FILE, ListCollator, ListLossFunction, MemoryCallback

from .small_lists import DOCUMENTS, LABELS, QUERIES, TENSORS, relevance

ROWS = [
    {"query": query, "documents": texts, "labels": labels, "list": number}
    for number, (query, texts, labels) in enumerate(zip(QUERIES, DOCUMENTS, LABELS, strict=True))
]


def tokenizer(queries, texts, **options):
    assert options == {"padding": True, "truncation": True, "return_tensors": "pt", "max_length": 9}
    assert len(queries) == len(texts)
    return {"input_ids": torch.tensor([[int(q[1:]), "abcde".index(t)] for q, t in zip(queries, texts, strict=True)])}


def batch(rows, number="list"):
    return ListCollator(tokenizer, number=number, max_length=9)(rows)


def outputs(inputs, table):
    return SimpleNamespace(logits=table[inputs["input_ids"][:, 0], inputs["input_ids"][:, 1]].unsqueeze(1))


def test_a_batch_has_one_row_per_document_and_the_labels_of_each_list():
    found = batch(ROWS[:2])
    assert found["input_ids"].tolist() == [[0, 0], [0, 1], [0, 2], [0, 3], [0, 4], [1, 1], [1, 2], [1, 4]]
    assert found["labels"].tolist() == [[0, 0, 2, 0, 1, 0], [1, 1, 0, 0, -100, -100]]
    assert batch(ROWS[:1], number=None)["labels"][0, 0] == -1


def test_the_loss_of_a_batch_is_that_of_its_slate():
    table = torch.randn(4, 5, generator=torch.Generator().manual_seed(1), requires_grad=True)
    inputs = batch(ROWS)
    found = ListLossFunction(SONG(0, gamma=1.0))(outputs(inputs, table), inputs["labels"])
    values = []
    for number, row in enumerate(ROWS):
        columns = torch.tensor(["abcde".index(text) for text in row["documents"]])
        slate = Slate.from_batch(TENSORS[number].unsqueeze(0), torch.tensor([number]))
        values.append(SONG(0, gamma=1.0)(table[number, columns].unsqueeze(0), slate))
    torch.testing.assert_close(found, torch.stack(values).mean())


def test_memory_is_kept_by_list_and_an_evaluation_leaves_it():
    table, lists = torch.randn(4, 5), relevance()
    loss = ListLossFunction(KSONG(lists.num_pairs, 4, k=2), lists)
    inputs = batch([ROWS[2], ROWS[0]])
    with torch.no_grad():
        assert -1.0 <= float(loss(outputs(inputs, table), inputs["labels"])) <= 0.0
    assert not loss.loss.u.read().isfinite().any()
    loss(outputs(inputs, table.requires_grad_()), inputs["labels"])
    first, second = (int(lists.indptr[list_]) for list_ in (0, 2))
    expected = [row in (first, first + 1, second, second + 1) for row in range(lists.num_pairs)]
    assert loss.loss.u.read().isfinite().tolist() == expected


def test_a_part_of_an_accumulated_batch_counts_by_its_entries():
    table = torch.randn(4, 5, requires_grad=True)
    loss, inputs = ListLossFunction(ListwiseCE(0, gamma=1.0)), batch(ROWS[1:3])
    whole = loss(outputs(inputs, table), inputs["labels"])
    part = loss(outputs(inputs, table), inputs["labels"], num_items_in_batch=torch.tensor(36))
    torch.testing.assert_close(part, whole * 9 / 36)  # 2 numbers and 7 documents


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query": None}, "the rows have no column 'query'; pass remove_unused_columns=False"),
        ({"list": None}, "the rows have no column 'list'; pass remove_unused_columns=False"),
        ({"labels": [1.0]}, "a query has 5 documents and 1 labels"),
        ({"labels": [1, 0, 0, 0, -100]}, "expected finite numbers of at least 0"),
    ],
)
def test_wrong_rows_are_named(change, message):
    row = {name: value for name, value in {**ROWS[0], **change}.items() if value is not None}
    with pytest.raises(DataError, match=message):
        batch([row])


def test_a_model_with_two_outputs_is_named():
    inputs = batch(ROWS[:2])
    wrong = SimpleNamespace(logits=torch.zeros(8, 2))
    with pytest.raises(DataError, match="the model has 16 outputs for 8 documents; expected num_labels=1"):
        ListLossFunction(SONG(0, gamma=1.0))(wrong, inputs["labels"])


def state(folder, step, first=True):
    return SimpleNamespace(output_dir=folder), SimpleNamespace(global_step=step, is_world_process_zero=first)


def test_memory_without_a_checkpoint_is_named_and_only_the_first_process_writes(tmp_path):
    loss = ListLossFunction(SONG(relevance().num_pairs), relevance())
    callback = MemoryCallback(loss)
    callback.on_train_begin(*state(tmp_path, 0), None)
    with pytest.raises(DataError, match=rf"checkpoint-7/{MEMORY_FILE}: is missing; pass its directory"):
        callback.on_train_begin(*state(tmp_path, 7), None)
    with pytest.raises(DataError, match="checkpoint-7: the checkpoint directory is missing"):
        callback.on_save(*state(tmp_path, 7), None)
    (tmp_path / "checkpoint-7").mkdir()
    callback.on_save(*state(tmp_path, 7, first=False), None)
    assert not list((tmp_path / "checkpoint-7").iterdir())
    loss.steps = 5
    callback.on_save(*state(tmp_path, 7), None)
    assert [file.name for file in (tmp_path / "checkpoint-7").iterdir()] == [MEMORY_FILE]
    other = ListLossFunction(SONG(relevance().num_pairs), relevance())
    MemoryCallback(other, resume_from=tmp_path / "checkpoint-7").on_train_begin(*state("elsewhere", 7), None)
    assert other.steps == 5


# The real trainer.


def train(folder, resume=None, length=None, **options):
    import random

    from transformers import Trainer, TrainingArguments

    from tests.examples.test_loops import load

    chance, example = random.Random(0), load("cross_encoder")
    questions = [example.synthetic_question(chance) for _ in range(32)]
    questions = [q._replace(documents=q.documents[:length], labels=q.labels[:length]) for q in questions]
    rows = [
        {"query": q.query, "documents": q.documents, "labels": q.labels.tolist(), "list": number}
        for number, q in enumerate(questions)
    ]
    lists = Relevance.from_lists(torch.cat([q.labels for q in questions]), [len(q.labels) for q in questions])
    torch.manual_seed(4)
    words, model = example.tiny_bert()
    loss = ListLossFunction(KSONG(lists.num_pairs, 32, k=3), lists)
    quiet = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "remove_unused_columns": False}
    steps = {"per_device_train_batch_size": 8, "max_steps": 6, "save_steps": 3, "learning_rate": 1e-3, **options}
    trainer = Trainer(
        model,
        TrainingArguments(str(folder), **quiet, **steps),
        ListCollator(words, number="list"),
        train_dataset=rows,
        eval_dataset=rows,
        compute_loss_func=loss,
        callbacks=[MemoryCallback(loss)],
    )
    trainer.train(resume_from_checkpoint=resume)
    return trainer, loss


def test_a_run_that_resumes_ends_where_an_uninterrupted_one_does(tmp_path):
    pytest.importorskip("accelerate", reason="the Trainer needs pip install accelerate")
    trainer, loss = train(tmp_path)
    (tmp_path / "checkpoint-3").rename(tmp_path / "moved-3")
    with pytest.raises(DataError, match=r"checkpoint-3/songrank_memory.safetensors: is missing"):
        train(tmp_path, str(tmp_path / "moved-3"))
    (tmp_path / "moved-3").rename(tmp_path / "checkpoint-3")
    again, resumed = train(tmp_path, str(tmp_path / "checkpoint-3"))
    for name, values in trainer.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], values), name
    for name, values in loss.memory_state().items():
        assert torch.equal(resumed.memory_state()[name], values), name
    assert -1.0 <= trainer.evaluate()["eval_loss"] < 0.0


def test_accumulated_parts_train_as_whole_batches_do(tmp_path):
    """Parts count by their number of documents, here equal."""
    pytest.importorskip("accelerate", reason="the Trainer needs pip install accelerate")
    options = {"length": 5, "max_steps": 3, "save_strategy": "no", "optim": "sgd", "learning_rate": 1.0}
    whole, _ = train(tmp_path, **options)
    parts, _ = train(tmp_path, **options, per_device_train_batch_size=4, gradient_accumulation_steps=2)
    start, _ = train(tmp_path, **{**options, "learning_rate": 0.0})
    moved = 0.0
    for name, values in whole.model.state_dict().items():
        torch.testing.assert_close(parts.model.state_dict()[name], values, rtol=1e-4, atol=1e-5, msg=name)
        moved = max(moved, float((start.model.state_dict()[name] - values).abs().max()))
    assert moved > 0.01
