"""The losses in other people's loops give what a plain PyTorch loop gives."""

import importlib.util
from pathlib import Path

import pytest
import torch

from songrank import SONG, ListwiseCE, Relevance, SlateSampler

EXAMPLES = Path(__file__).parents[2] / "examples"
EPOCHS = 4


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def lightning_loop(monkeypatch):
    pytest.importorskip("lightning")
    example = load("lightning_loop")
    monkeypatch.setattr(example, "WARM_UP_EPOCHS", 2)
    return example


def trainer(*callbacks, **options):
    import lightning

    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    return lightning.Trainer(enable_checkpointing=bool(callbacks), callbacks=list(callbacks), **quiet, **options)


def assert_same_state(one, other):
    first, second = one.state_dict(), other.state_dict()
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def test_lightning_trains_the_weights_and_the_memory_of_a_plain_loop(lightning_loop):
    ranker = lightning_loop.untrained(seed=3)
    trainer(max_epochs=EPOCHS).fit(ranker)

    model = lightning_loop.untrained(seed=3).model
    features, labels, lengths = lightning_loop.made_up_lists(300, seed=1)
    relevance = Relevance.from_lists(labels, lengths)
    sampler = SlateSampler(relevance, queries_per_batch=32, length=16)
    warm_up, song = ListwiseCE(relevance.num_pairs), SONG(relevance.num_pairs)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(EPOCHS):
        for slate in sampler:
            loss = warm_up if epoch < 2 else song
            optimiser.zero_grad()
            loss(model(features[slate.item]).squeeze(-1), slate).backward()
            optimiser.step()

    assert_same_state(ranker.model, model)
    assert_same_state(ranker.song, song)
    assert_same_state(ranker.warm_up, warm_up)
    assert song.u.read().isfinite().any()


@pytest.mark.parametrize("steps", [20, 27], ids=["between epochs", "within an epoch"])
def test_a_lightning_run_that_goes_on_ends_where_an_undisturbed_one_does(lightning_loop, steps, tmp_path):
    from lightning.pytorch.callbacks import ModelCheckpoint

    undisturbed = lightning_loop.untrained()
    saving = ModelCheckpoint(tmp_path, every_n_train_steps=steps, save_top_k=-1, filename="{step}")
    trainer(saving, max_epochs=EPOCHS).fit(undisturbed)

    resumed = lightning_loop.untrained(seed=9)
    trainer(max_epochs=EPOCHS).fit(resumed, ckpt_path=tmp_path / f"step={steps}.ckpt")
    assert_same_state(resumed, undisturbed)


@pytest.fixture(scope="module")
def cross_encoder():
    pytest.importorskip("transformers")
    return load("cross_encoder")


@pytest.fixture
def questions(cross_encoder):
    import random

    chance = random.Random(5)
    return [cross_encoder.made_up_question(chance) for _ in range(6)]


def test_a_document_gets_the_same_score_alone_and_in_a_padded_batch(cross_encoder, questions):
    torch.manual_seed(0)
    tokenizer, model = cross_encoder.tiny_bert()
    together = cross_encoder.scores_of(model, tokenizer, questions)
    mask = cross_encoder.slate_of(questions, model.device).mask
    for question, scores, present in zip(questions, together, mask, strict=True):
        assert int(present.sum()) == len(question.documents)
        for place, document in enumerate(question.documents):
            alone = question._replace(documents=[document], labels=question.labels[:1])
            torch.testing.assert_close(scores[place], cross_encoder.scores_of(model, tokenizer, [alone])[0, 0])


def test_labels_count_the_words_of_the_query(cross_encoder, questions):
    for query, documents, labels in questions:
        shared = [len(set(query.split()) & set(document.split())) for document in documents]
        assert shared == labels.tolist()


def test_a_model_from_a_folder_scores_as_the_one_that_was_saved(cross_encoder, questions, tmp_path):
    tokenizer, model = cross_encoder.tiny_bert()
    tokenizer.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path)
    loaded_tokenizer, loaded = cross_encoder.pretrained(str(tmp_path))
    expected = cross_encoder.scores_of(model.eval(), tokenizer, questions)
    torch.testing.assert_close(cross_encoder.scores_of(loaded.eval(), loaded_tokenizer, questions), expected)
