"""The default model of LabelRanker: the choice, and what it must learn perfectly."""

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import ndcg_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import MultiLabelBinarizer

from songrank.estimators import LabelRanker, label_ranker
from songrank.estimators.label_candidates import FEW_ROWS, MOST_WEIGHTS, Candidate, label_candidates
from songrank.models.blend import standardise
from songrank.serving.labels import score_labels
from songrank.serving.open import open_model
from songrank.training.config.recipe_files import load_recipe
from tests.estimators.small_texts import label_texts


def default(**more):
    return LabelRanker(device="cpu", verbose=0, **more)


def names(*sizes):
    return [candidate.name for candidate in label_candidates(*sizes)]


def test_the_size_of_the_data_decides_which_models_are_tried():
    assert names(FEW_ROWS - 1, 100, 10) == ["linear model"]
    assert names(FEW_ROWS, 100, 10) == ["linear model", "MLP"]
    assert names(50, MOST_WEIGHTS, 2) == ["MLP"]


@pytest.mark.parametrize("rows", [2, 50, 999, 4000, 50_000])
def test_changes_are_valid_recipes_with_enough_steps(rows):
    for candidate in label_candidates(rows, 100, 10) + label_candidates(rows, MOST_WEIGHTS, 10):
        recipe = load_recipe("labelling", candidate.changes)
        steps = [section.epochs * -(-rows // recipe.batch.queries) for section, _ in recipe.sections()]
        assert sum(steps) >= 400
        for section, _ in recipe.sections()[recipe.warm_up.epochs == 0 :]:
            assert all(0 < epoch < section.epochs for epoch in section.decay)
            assert section.epochs <= 20 * recipe.validation.every or recipe.validation.every == 1


@pytest.mark.parametrize("rows", [50, 200])
def test_texts_with_separable_labels_are_learned_perfectly(rows):
    texts, labels = label_texts(rows + 100)
    made = default().fit(texts[:rows], labels[:rows])
    assert made.predict(texts[rows:], k=1).tolist() == labels[rows:]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("rows", [50, 300])
def test_features_with_separable_labels_are_learned_perfectly(rows, sparse):
    random = np.random.default_rng(1)
    label = random.integers(4, size=rows + 100)
    X = 4 * np.eye(4)[label] + 0.3 * random.random((rows + 100, 4))
    X = np.hstack([X, random.random((rows + 100, 6))]) * ([1] * 10 if sparse else [1e3, 1, 1e-3, 1, 1, 1, 1, 1, 1e4, 1])
    X = scipy.sparse.csr_matrix(X) if sparse else X + 5
    made = default().fit(X[:rows], label[:rows])
    assert made.predict(X[rows:], k=1)[:, 0].tolist() == label[rows:].tolist()


def test_it_is_not_below_one_vs_rest_logistic_regression():
    texts, labels = label_texts(500, labels=12, own=2, noise=200, per_row=3, length=15, seed=3)
    made = default().fit(texts[:200], labels[:200])
    vectors, sets = TfidfVectorizer().fit(texts[:200]), MultiLabelBinarizer().fit(labels)
    regression = OneVsRestClassifier(LogisticRegression())
    regression.fit(vectors.transform(texts[:200]), sets.transform(labels[:200]))
    target = sets.transform(labels[200:])
    reference = ndcg_score(target, regression.decision_function(vectors.transform(texts[200:])), k=5)
    assert made.classes_.tolist() == sets.classes_.tolist()
    assert ndcg_score(target, made.decision_function(texts[200:]), k=5) > reference - 0.005


def test_the_choice_is_reported_and_the_model_is_fitted_on_all_rows(capfd):
    texts, labels = label_texts(60)
    made = LabelRanker(device="cpu").fit(texts, labels)
    last = [line for line in capfd.readouterr().err.splitlines() if "chosen" in line]
    assert last == ["validation ndcg@5: linear model 1.0000; chosen: linear model, fitted again on all 60 rows"]
    assert made.folder_.info["vocabulary"]["texts"] == 60
    assert made.best_score_ == {"validation": dict(made.evaluation_["validation"].values)}
    assert made.best_score_["validation"]["ndcg@5"] == 1.0
    assert made.recipe_.model["hidden"] == []


def test_the_better_of_two_models_is_kept():
    random = np.random.default_rng(0)
    X = random.normal(size=(1000, 4)).astype(np.float32)
    curved = (X[:, 0] * X[:, 1] > 0).astype(int)  # no linear model knows it
    made = default().fit(X, curved)
    assert made.recipe_.model["hidden"] == [512]
    assert made.best_score_["validation"]["ndcg@5"] > 0.95
    linear = default().fit(X, (X[:, 0] > 0).astype(int))
    assert linear.best_score_["validation"]["ndcg@5"] > 0.98


def test_a_better_blend_is_kept_and_fitted_again_on_all_rows(monkeypatch, tmp_path, capfd):
    small = ("warm_up.epochs=4", "fine_tuning.epochs=4", "model.hidden=[8]", "model.dropout=0", "batch.queries=16")
    pair = [Candidate(name, (*small, f"seed={seed}")) for name, seed in (("one", 1), ("two", 2))]
    monkeypatch.setattr(label_ranker, "label_candidates", lambda *sizes: pair)
    texts, labels = label_texts(900, labels=20, noise=100, per_row=3, length=20)
    made = LabelRanker(device="cpu", folder=str(tmp_path / "work")).fit(texts[:700], labels[:700])
    assert made.folder_.info["model"]["name"] == "blend"
    assert made.folder_.info["vocabulary"]["texts"] == 700
    (told,) = (line for line in capfd.readouterr().err.splitlines() if "chosen" in line)
    values, _, chosen = told.partition("; chosen: blend of ")
    assert made.best_score_["validation"]["ndcg@5"] == pytest.approx(float(values.rpartition(" ")[2]), abs=1e-4)
    weights = made.folder_.model.weights
    assert chosen == f"{weights[0]:.2f} one and {weights[1]:.2f} two, fitted again on all 700 rows"
    assert {line["part"] for line in made.history_} == {"one", "two"}
    members = [open_model(tmp_path / "work" / f"run-{name}") for name in ("one", "two")]
    parts = [torch.cat(list(score_labels(folder, texts[700:]))) for folder in members]
    expected = sum(weight * standardise(part) for weight, part in zip(weights, parts, strict=True))
    np.testing.assert_allclose(made.decision_function(texts[700:]), expected.numpy(), atol=1e-6)
    made.save(tmp_path / "saved")
    again = LabelRanker.load(tmp_path / "saved", "cpu")
    assert again.predict(texts[700:]).tolist() == made.predict(texts[700:]).tolist()


def test_parameters_and_a_validation_part_disable_it():
    texts, labels = label_texts(60)
    assert default(options={"warm_up.epochs": 1, "fine_tuning.epochs": 1}).fit(texts, labels).recipe_.model["hidden"]
    chosen = default(data_options={"validation": 0.2}).fit(texts, labels)
    assert chosen.folder_.info["vocabulary"]["texts"] == 48
    everything = default(data_options={"validation": 0}).fit(texts, labels)
    assert everything.folder_.info["vocabulary"]["texts"] == 60
    assert everything.best_score_ == {}


def test_a_model_of_texts_survives_saving(tmp_path):
    texts, labels = label_texts(60)
    made = default(data_options={"ngrams": 2}).fit(texts, labels)
    made.save(tmp_path / "ranker")
    again = LabelRanker.load(tmp_path / "ranker", "cpu")
    assert again.decision_function(texts[:7]).tolist() == made.decision_function(texts[:7]).tolist()
    assert again.evaluate(texts, labels).values == made.evaluate(texts, labels).values
