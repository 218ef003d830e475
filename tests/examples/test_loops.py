"""The losses in other people's loops give what a plain PyTorch loop gives."""

import importlib.util
from pathlib import Path

import pytest
import torch

from songrank import SONG, ListwiseCE, Relevance, SlateSampler
from songrank.models import CatalogueModel

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
    trainer(max_epochs=EPOCHS).fit(ranker, lightning_loop.SlateDataModule(ranker.sampler))

    model = lightning_loop.untrained(seed=3).model
    features, labels, lengths = lightning_loop.synthetic_lists(300, seed=1)
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
    trainer(saving, max_epochs=EPOCHS).fit(undisturbed, lightning_loop.SlateDataModule(undisturbed.sampler))

    resumed = lightning_loop.untrained(seed=9)
    slates = lightning_loop.SlateDataModule(resumed.sampler)
    trainer(max_epochs=EPOCHS).fit(resumed, slates, ckpt_path=tmp_path / f"step={steps}.ckpt")
    assert_same_state(resumed, undisturbed)


@pytest.fixture(scope="module")
def cross_encoder():
    pytest.importorskip("transformers")
    return load("cross_encoder")


@pytest.fixture
def questions(cross_encoder):
    import random

    chance = random.Random(5)
    return [cross_encoder.synthetic_question(chance) for _ in range(6)]


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


@pytest.fixture(scope="module")
def text_encoder():
    pytest.importorskip("transformers")
    return load("text_encoder")


def test_labels_are_the_syllables_that_words_of_a_text_share(text_encoder):
    texts, labels = text_encoder.synthetic_texts(30, seed=2)
    for text, row in zip(texts, labels.tolist(), strict=True):
        shared = {part: sum(part in word for word in text.split()) for part in text_encoder.LABELS}
        assert row == [max(0, count - 1) for count in shared.values()]
    assert (labels.sum(1) > 0).all()


def test_an_encoder_of_transformers_makes_a_catalogue_model_that_padding_does_not_change(text_encoder):
    torch.manual_seed(0)
    tokenizer, encoder = text_encoder.tiny_distilbert()
    model = text_encoder.labeller(tokenizer, encoder, 10).eval()
    assert isinstance(model, CatalogueModel)
    texts, _ = text_encoder.synthetic_texts(6, seed=2)
    texts[1] = texts[1].split()[0]
    scores = model.score_all(text_encoder.numbers(tokenizer, texts))
    assert scores.std() > 0.1
    for text, row in zip(texts, scores, strict=True):
        alone = text_encoder.numbers(tokenizer, [text])
        torch.testing.assert_close(model.score_all(alone)[0], row)
        torch.testing.assert_close(model(alone, torch.tensor([[7, 2]]))[0], row[[7, 2]])


def test_an_encoder_from_a_folder_scores_as_the_one_that_was_saved(text_encoder, tmp_path):
    parts = text_encoder.tiny_distilbert()
    for part in parts:
        part.save_pretrained(tmp_path)
    scores = []
    for tokenizer, encoder in (parts, text_encoder.pretrained(str(tmp_path))):
        torch.manual_seed(0)
        model = text_encoder.labeller(tokenizer, encoder, 10).eval()
        scores.append(model.score_all(text_encoder.numbers(tokenizer, ["balan dero moris", "kutep"])))
    torch.testing.assert_close(*scores)
