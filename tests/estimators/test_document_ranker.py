"""DocumentRanker: LightGBM's call on the training code of the command line."""

import io
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pandas
import polars as pl
import pytest
import scipy.sparse
import scipy.stats
import sklearn
import torch
from sklearn.base import clone
from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from songrank import Slate
from songrank.core.errors import UserError
from songrank.core.gains import weighted_labels
from songrank.data import prepare
from songrank.estimators import DocumentRanker
from songrank.estimators.document_defaults import size_dependent
from songrank.losses.registry import LOSSES
from songrank.training import Run, load_recipe
from tests.estimators.evaluations import same_evaluations
from tests.estimators.small_documents import GROUP, NAMES, PREPARED, QID, SMALL, X, Y, documents, ranker, weights_of


@pytest.fixture(scope="module")
def fitted():
    return ranker(epochs=40, learning_rate=2e-2).fit(X, Y, group=GROUP)


# ---- what is learned


def test_it_is_the_run_that_the_command_line_would_make(tmp_path):
    other, labels, lengths = documents(1, 6)
    both = np.concatenate([QID, len(GROUP) + np.repeat(np.arange(6), lengths)])
    split = ["train"] * len(X) + ["validation"] * len(other)
    table = pl.from_numpy(np.concatenate([X, other]), schema=["a", "b", "c", "d"])
    table = table.with_columns(qid=pl.Series(both), y=np.concatenate([Y, labels]), split=pl.Series(split))
    prepare("feature-table", table, tmp_path / "data", **PREPARED)
    by_size = size_dependent(len(GROUP), len(X), 3 * X.shape[1], epochs=4)
    changes = [f"data={tmp_path / 'data'}", *by_size, "device=cpu", "seed=3", "fine_tuning.epochs=4", "batch.queries=4"]
    recipe = load_recipe("search", [*changes, "model.hidden=[8]", "warm_up.epochs=2"])
    run = Run.begin(recipe, tmp_path / "run")
    run.finish()
    made = ranker(random_state=3).fit(X, Y, group=GROUP, eval_set=[(other, labels)], eval_group=[lengths])
    assert weights_of(made, tmp_path) == (tmp_path / "run" / "model.safetensors").read_bytes()
    assert made.best_score_["valid_0"]["ndcg@10"] == run.trainer.at.best
    assert made.history_ == run.trainer.at.history


def test_it_learns_what_there_is_to_learn(fitted):
    other, labels, lengths = documents(7)
    found = fitted.evaluate(other, labels, lengths, ["ndcg@5", "mrr"])
    noise = ranker(epochs=1, options={**SMALL, "fine_tuning.learning_rate": 1e-9, "warm_up.epochs": 0})
    assert set(found.values) == {"ndcg@5", "mrr"}
    guess = noise.fit(X, Y, group=GROUP).evaluate(other, labels, lengths)
    assert found.values["ndcg@5"] > 0.9 > guess.values["ndcg@5"]


def test_that_a_value_is_missing_can_be_learned():
    noise = np.random.default_rng(5).normal(size=(len(X), 2))
    noise[Y > 0, 0] = np.nan
    model = ranker(epochs=40, learning_rate=2e-2)
    assert model.fit(noise, Y > 0, group=GROUP).evaluate(noise, Y > 0, GROUP).values["ndcg@10"] == 1
    unsaid = clone(model).set_params(data_options={"missing_flags": False}).fit(noise, Y > 0, group=GROUP)
    assert unsaid.evaluate(noise, Y > 0, GROUP).values["ndcg@10"] < 0.98


def test_ids_in_any_order_are_lengths_of_lists(tmp_path):
    shuffled = np.random.default_rng(0).permutation(len(X))
    by_group = ranker(epochs=1).fit(X, Y, group=GROUP)
    by_id = ranker(epochs=1).fit(X, Y, qid=[f"q{q}" for q in QID])
    assert weights_of(by_group, tmp_path) == weights_of(by_id, tmp_path, "ids")
    mixed = ranker(epochs=1).fit(X[shuffled], Y[shuffled], qid=QID[shuffled])
    value = mixed.evaluate(X[shuffled], Y[shuffled], qid=QID[shuffled]).values["ndcg@10"]
    assert mixed.evaluate(X, Y, GROUP).values["ndcg@10"] == pytest.approx(value, abs=1e-6)


def test_every_kind_of_table_gives_the_same_weights(tmp_path):
    frame = pandas.DataFrame(X, columns=NAMES)
    full = np.nan_to_num(X)
    arrays = (X, X.astype(np.float64), X.tolist(), pandas.DataFrame(X))
    tables = (frame, pl.from_pandas(frame), pl.from_pandas(frame).to_arrow(), dict(zip(NAMES, X.T, strict=True)))
    weights = {weights_of(ranker(epochs=1).fit(kind, Y, group=GROUP), tmp_path) for kind in (*arrays, *tables)}
    assert len(weights) == 1
    sparse = ranker(epochs=1).fit(scipy.sparse.csr_array(full), Y, group=GROUP)
    assert weights_of(sparse, tmp_path) == weights_of(ranker(epochs=1).fit(full, Y, group=GROUP), tmp_path)
    np.testing.assert_array_equal(sparse.predict(scipy.sparse.coo_matrix(full)), sparse.predict(full))


# ---- evaluation sets


def test_the_first_set_chooses_the_epoch_and_the_others_are_measured():
    sets = [documents(seed, 8) for seed in (1, 2)]
    made = ranker(epochs=6).fit(
        X, Y, group=GROUP, eval_set=[(a, b) for a, b, _ in sets], eval_group=[c for *_, c in sets]
    )
    assert list(made.best_score_) == list(made.evals_result_) == list(made.evaluation_) == ["valid_0", "valid_1"]
    looks = made.evals_result_["valid_0"]["ndcg@10"]
    assert len(looks) == 6
    assert made.best_score_["valid_0"]["ndcg@10"] == max(looks) == looks[made.best_iteration_ - 1]
    for name, (data, labels, lengths) in zip(made.best_score_, sets, strict=True):
        found = made.evaluate(data, labels, lengths).values
        assert made.best_score_[name] == pytest.approx(found, abs=1e-6)
    data, labels, lengths = sets[1]
    assert made.score(data, labels, group=lengths) == pytest.approx(made.best_score_["valid_1"]["ndcg@10"], abs=1e-6)


def test_without_a_set_all_epochs_are_trained_and_names_may_be_given():
    alone = ranker(epochs=3).fit(X, Y, group=GROUP)
    assert (alone.best_score_, alone.best_iteration_, alone.evals_result_) == ({}, 3, {})
    named = ranker(epochs=1).fit(X, Y, group=GROUP, eval_set=(X, Y), eval_group=[GROUP], eval_names=["mine"])
    assert list(named.best_score_) == ["mine"]
    part = ranker(epochs=1, data_options={"validation": 0.2}).fit(X, Y, group=GROUP)
    assert list(part.best_score_) == ["validation"]


def test_patience_ends_it_early():
    data, labels, lengths = documents(1, 8)
    options = {**SMALL, "validation.patience": 1, "fine_tuning.learning_rate": 1e-9, "warm_up.epochs": 0}
    made = ranker(epochs=50, options=options)
    made.fit(X, Y, group=GROUP, eval_set=[(data, labels)], eval_group=[lengths])
    assert len(made.history_) == 2
    assert made.best_iteration_ == 1


# ---- weights


def plain_dcg(gains):
    return sum(gain / np.log2(2 + at) for at, gain in enumerate(gains))


@pytest.mark.parametrize("gain", ["exp2", "linear"])
def test_a_weight_of_a_document_multiplies_its_gain(gain, fitted):
    generator = np.random.default_rng(3)
    labels = generator.choice([0, 0.5, 1, 2, 4], len(Y))
    weight = generator.choice([0.0, 0.3, 1.0, 7.0], len(Y))
    made = clone(fitted).set_params(epochs=1, options={**SMALL, "gain": gain}).fit(X, Y, group=GROUP)
    found = made.evaluate(X, labels, GROUP, "ndcg", sample_weight=weight).per_query["ndcg"].numpy()
    gains = weight * (labels if gain == "linear" else 2.0**labels - 1)
    scores, expected = made.predict(X, group=GROUP), []
    for rows in np.split(np.arange(len(Y)), np.cumsum(GROUP)[:-1]):
        mine = gains[rows]
        ideal = plain_dcg(np.sort(mine)[::-1])
        expected.append(plain_dcg(mine[np.argsort(-scores[rows])]) / ideal if ideal else np.nan)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_weight_of_one_leaves_a_label_as_it_is():
    label = torch.rand(1000, generator=torch.Generator().manual_seed(0)) * 5
    assert torch.equal(weighted_labels(label, 1.0), label)


def test_weights_change_the_model_except_those_of_irrelevant_documents(tmp_path):
    def fit(**more):
        return weights_of(ranker(epochs=1).fit(X, Y, group=GROUP, **more), tmp_path)

    plain = fit()
    assert fit(sample_weight=np.ones(len(Y))) == fit(sample_weight=np.where(Y > 0, 1.0, 99.0)) == plain
    assert fit(sample_weight=1.0 + np.arange(len(Y)) % 2) != plain
    assert fit(group_weight=np.arange(len(GROUP)) + 1.0) != plain


@pytest.mark.parametrize("name", LOSSES)
def test_weights_are_taken_by_the_losses_that_are_made_of_gains_and_by_no_other(name):
    """Such a loss has one gradient for labels whose exp2 gain is g and for labels g with a linear gain."""
    generator = torch.Generator().manual_seed(0)
    label = torch.randint(0, 4, (5, 9), generator=generator).float()
    label[:, :2] = torch.tensor([0.0, 1.0])
    weight = 1 + label / 2  # keeps the order, which is all that some losses look at
    gain = weight * (2**label - 1)
    scores = torch.randn(5, 9, generator=generator)

    def gradient(labels, kind):
        whole = {"num_pairs": 0, "gamma": 1.0}  # nothing to remember
        more = {"song": whole, "listwise-ce": whole, "k-song": {**whole, "num_queries": 5, "k": 3}}
        more["sl-at-k"] = more["k-song"]
        more["faster-song"] = {**whole, "num_queries": 5, "queries_per_batch": 5}
        more["faster-k-song"] = {**more["faster-song"], "k": 3}
        moved = scores.clone().requires_grad_()
        slate = Slate.from_batch(labels, torch.arange(5), k=3 if name.endswith("k-song") else None, gain=kind)
        LOSSES[name](**more.get(name, {}))(moved, slate).backward()
        return moved.grad

    weighted = gradient(weighted_labels(label, weight), "exp2")
    by_gain = torch.allclose(weighted, gradient(gain, "linear"), atol=1e-5)
    heard = not torch.allclose(weighted, gradient(label, "exp2"), atol=1e-4)
    assert (by_gain and heard) == LOSSES[name].traits.gains
    if not LOSSES[name].traits.gains:
        with pytest.raises(
            UserError, match=f"^sample_weight multiplies gains, which loss '{name}' does not use; omit it "
        ):
            ranker(loss=name).fit(X, Y, np.ones(len(Y)), group=GROUP)


def test_the_warm_up_does_not_hear_weights_but_zero(tmp_path):
    def fit(weight):
        only = {**SMALL, "fine_tuning.epochs": 0}
        made = ranker(epochs=None, options=only, data_options={"shrink": False})
        return weights_of(made.fit(X, Y, weight, group=GROUP), tmp_path)

    plain = fit(None)
    assert fit(1.0 + np.arange(len(Y)) % 3) == plain
    assert fit((np.arange(len(Y)) % 3).astype(float)) != plain


def test_a_query_of_weight_zero_is_not_learned_from(tmp_path):
    """Its documents only take part in the standardisation, which is left out here."""
    made = {"epochs": 3, "options": {**SMALL, "batch.queries": 100}, "data_options": {"standardise": False}}
    made["data_options"] |= {"log_features": "none", "missing": "zero"}
    other = Y.copy()
    other[: GROUP[0]] = Y[: GROUP[0]][::-1] + 1
    weight = np.ones(len(GROUP))
    weight[0] = 0.0
    one, two = (ranker(**made).fit(X, y, group=GROUP, group_weight=weight).predict(X) for y in (Y, other))
    heard = ranker(**made).fit(X, other, group=GROUP).predict(X)
    np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)
    assert np.abs(one - heard).max() > 1e-3


# ---- predicting


@pytest.mark.parametrize("within_query", ["all", "z-rank", "none"])
def test_without_lists_a_document_has_the_same_score_alone_and_among_others(fitted, within_query):
    made = fitted if within_query == "all" else ranker(data_options={"within_query": within_query})
    scores = (made if within_query == "all" else made.fit(X, Y, group=GROUP)).predict(X)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(
        np.concatenate([made.predict(X[at : at + 1]) for at in range(20)]), scores[:20], atol=1e-5
    )
    many = np.tile(X, (10_000 // len(X) + 1, 1))[:10_000]
    np.testing.assert_allclose(made.predict(many), np.resize(scores, 10_000), atol=1e-5)
    apart = np.abs(made.predict(X, group=GROUP) - scores).max()
    assert apart < 1e-5 if within_query == "none" else apart > 1e-3


def test_without_lists_the_order_is_still_learned(fitted):
    other, labels, lengths = documents(11, 40)
    good = X[:, 0].argsort()
    assert scipy.stats.spearmanr(fitted.predict(other), np.nan_to_num(other[:, 0])).statistic > 0.8
    assert fitted.predict(X[good[-10:]]).mean() > fitted.predict(X[good[:10]]).mean()
    assert labels.shape[0] == lengths.sum()


def test_that_documents_have_no_lists_is_reported_once(capfd):
    made = ranker(epochs=1, verbose=1).fit(X, Y, group=GROUP)
    capfd.readouterr()
    made.predict(X, group=GROUP)
    assert capfd.readouterr().err == ""
    made.predict(X)
    assert capfd.readouterr().err.startswith("predict without group or qid compares documents with the training ")
    made.predict(X)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "more",
    [{"data_options": {"within_query": "z"}}, {"model": {"name": "context-aware", "dim": 8, "heads": 1, "blocks": 1}}],
)
def test_where_documents_are_compared_their_lists_matter(more):
    options = {"warm_up.epochs": 1} if "model" in more else SMALL
    made = ranker(epochs=1, options=options, **more).fit(X, Y, group=GROUP)
    scores = made.predict(X, group=GROUP)
    first = made.predict(X[: GROUP[0]], group=GROUP[:1])
    np.testing.assert_allclose(scores[: GROUP[0]], first, atol=1e-5)
    assert np.abs(made.predict(X) - scores).max() > 1e-3
    shuffled = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_allclose(made.predict(X[shuffled], qid=QID[shuffled]), scores[shuffled], atol=1e-5)


# ---- what the defaults learn


def separable(seed, features, matter=10, lists=50):
    """Lists of 10 to 20 documents; the label is the sign of a linear function of the first features."""
    generator = np.random.default_rng(seed)
    group = generator.integers(10, 21, lists)
    data = generator.normal(size=(group.sum(), features))
    return data, (data[:, :matter] @ np.linspace(1.0, 2.0, matter) > 0).astype(float), group


@pytest.mark.parametrize(("features", "matter", "least"), [(10, 10, 0.99), (300, 5, 0.97)])
def test_the_defaults_learn_a_linear_order_from_50_queries(features, matter, least):
    (data, labels, group), held_out = (separable(seed, features, matter) for seed in (1, 2))
    made = DocumentRanker(verbose=0, device="cpu").fit(data, labels, group=group)
    assert made.score(data, labels, group=group) > 0.995
    assert made.score(held_out[0], held_out[1], group=held_out[2]) > least


def test_outliers_and_empty_columns_do_not_change_what_is_learned():
    data, labels, group = separable(1, 6, 4)
    spoilt = np.concatenate([data, np.full((len(data), 2), np.nan)], axis=1)
    spoilt[:, 5] = np.exp(20 * data[:, 5])
    spoilt[::97, :5] = 1e30
    spoilt[:, 7] = 3.0
    made = DocumentRanker(verbose=0, device="cpu").fit(spoilt, labels, group=group)
    held_out, wanted, lengths = separable(2, 6, 4)
    rows = np.concatenate([held_out, np.full((len(held_out), 2), np.nan)], axis=1)
    assert made.score(rows, wanted, group=lengths) > 0.97


def test_columns_are_found_by_their_names():
    frame = pandas.DataFrame(X, columns=NAMES)
    made = ranker(epochs=1).fit(frame, Y, group=GROUP)
    assert made.feature_names_in_.tolist() == made.feature_name_ == NAMES
    scores = made.predict(frame)
    np.testing.assert_array_equal(made.predict(frame[NAMES[::-1]].assign(more="text")), scores)
    np.testing.assert_array_equal(made.predict(pl.from_pandas(frame[NAMES[::-1]])), scores)
    np.testing.assert_array_equal(made.predict(X), scores)
    with pytest.raises(UserError, match="^X has no column 'bm25', 'age'; pass all fitted columns$"):
        made.predict(frame.drop(columns=["bm25", "age"]))
    made.fit(X, Y, group=GROUP)
    assert not hasattr(made, "feature_names_in_")
    assert made.feature_name_[0] == "Column_0"


@pytest.mark.parametrize("ignore", [["age", "clicks"], "age, clicks"])
def test_columns_that_are_ignored_are_left_out_everywhere(tmp_path, ignore):
    frame = pandas.DataFrame(X, columns=NAMES)
    named = ["bm25", "label"]
    expected = ranker(epochs=1).fit(frame[named], Y, group=GROUP)
    odd = frame.assign(age="a text")
    made = ranker(epochs=1, data_options={"ignore": ignore})
    made.fit(odd, Y, group=GROUP, eval_set=[(odd, Y)] * 2, eval_group=[GROUP] * 2)
    assert made.best_score_["valid_1"] == pytest.approx(expected.evaluate(frame, Y, GROUP).values, abs=1e-6)
    made.save(tmp_path / "ranker")
    for again in (made, DocumentRanker.load(tmp_path / "ranker", "cpu")):
        for same in (odd, frame[named], X):
            np.testing.assert_array_equal(again.predict(same), expected.predict(frame))
        assert (again.n_features_in_, again.feature_names_in_.tolist(), again.feature_name_) == (4, NAMES, named)
    by_place = ranker(epochs=1, data_options={"ignore": ["Column_1", "Column_2"]}).fit(X, Y, group=GROUP)
    np.testing.assert_array_equal(by_place.predict(X), expected.predict(frame))
    full = np.nan_to_num(X)
    np.testing.assert_array_equal(by_place.predict(scipy.sparse.csr_array(full)), by_place.predict(full))


def test_what_is_masked_is_missing(fitted):
    hidden = np.random.default_rng(1).random(X.shape) < 0.3
    masked = np.ma.array(np.nan_to_num(X), mask=hidden)
    np.testing.assert_array_equal(fitted.predict(masked), fitted.predict(np.where(hidden, np.nan, np.nan_to_num(X))))
    with pytest.raises(UserError, match=r"^y is nan in row 2 \(from 0\)"):
        fitted.evaluate(X, np.ma.array(Y, mask=np.arange(len(Y)) == 2), GROUP)


def test_lengths_of_lists_may_be_objects(fitted):
    found = fitted.evaluate(X, Y, np.array(GROUP.tolist(), object)).values
    assert found == fitted.evaluate(X, Y, GROUP).values


def test_after_features_and_labels_come_weights_as_in_lightgbm(tmp_path):
    weight = 1.0 + np.arange(len(Y)) % 2
    by_place = ranker(epochs=1).fit(X, Y, weight, group=GROUP)
    by_name = ranker(epochs=1).fit(X, Y, sample_weight=weight, group=GROUP)
    assert weights_of(by_place, tmp_path) == weights_of(by_name, tmp_path)
    expected = by_name.evaluate(X, Y, GROUP, "ndcg@10", sample_weight=weight).values["ndcg@10"]
    assert by_name.score(X, Y, weight, group=GROUP) == expected != by_name.score(X, Y, group=GROUP)
    for call in (by_name.fit, by_name.score):
        with pytest.raises(TypeError, match="positional"):
            call(X, Y, None, GROUP)
    with pytest.raises(TypeError, match="positional"):
        by_name.predict(X, GROUP)


# ---- keeping it, and scikit-learn


def test_it_survives_saving_and_pickling(tmp_path, fitted):
    frame = pandas.DataFrame(X, columns=NAMES)
    made = ranker(epochs=2).fit(frame, Y, group=GROUP, eval_set=[(frame, Y)], eval_group=[GROUP])
    made.save(tmp_path / "ranker")
    for again in (DocumentRanker.load(tmp_path / "ranker", "cpu"), pickle.loads(pickle.dumps(made))):
        np.testing.assert_array_equal(again.predict(frame[NAMES[::-1]]), made.predict(frame))
        for name in ("best_score_", "best_iteration_", "evals_result_", "n_features_in_", "history_", "feature_name_"):
            assert getattr(again, name) == getattr(made, name), name
        same_evaluations(again.evaluation_, made.evaluation_)
        assert again.feature_names_in_.tolist() == NAMES
        assert again.score(frame, Y, group=GROUP) == made.score(frame, Y, group=GROUP)
    fitted.save(tmp_path / "plain")
    assert not hasattr(DocumentRanker.load(tmp_path / "plain"), "feature_names_in_")


def test_it_can_be_cloned_and_ends_a_pipeline(tmp_path):
    made = clone(ranker(epochs=1, loss="lambdarank"))
    assert made.get_params()["loss"] == "lambdarank"
    full = np.nan_to_num(X)
    line = make_pipeline(StandardScaler(), made).fit(full, Y, documentranker__group=GROUP)
    by_hand = clone(made).fit(StandardScaler().fit_transform(full), Y, group=GROUP)
    np.testing.assert_array_equal(line.predict(full), by_hand.predict(StandardScaler().fit_transform(full)))


def test_a_grid_search_keeps_queries_whole_and_scores_list_by_list():
    with sklearn.config_context(enable_metadata_routing=True):
        made = ranker(epochs=2).set_fit_request(qid=True).set_score_request(qid=True)
        grid = GridSearchCV(made, {"learning_rate": [1e-9, 1e-2]}, cv=GroupKFold(2), error_score="raise")
        grid.fit(X, Y, groups=QID, qid=QID)
    assert grid.best_params_ == {"learning_rate": 1e-2}
    train, test = next(GroupKFold(2).split(X, Y, QID))
    by_hand = ranker(epochs=2, learning_rate=1e-2).fit(X[train], Y[train], qid=QID[train])
    expected = by_hand.evaluate(X[test], Y[test], qid=QID[test], metrics="ndcg@10").values["ndcg@10"]
    assert grid.cv_results_["split0_test_score"][1] == pytest.approx(expected, abs=1e-6)


# ---- LightGBM's own example


def test_lightgbms_example_is_ranked_with_its_own_call():
    folder = Path(os.environ.get("SONGRANK_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
    if not (folder / "lightgbm-rank.zip").exists():
        pytest.skip("no real data here: set SONGRANK_DATA to a folder with lightgbm-rank.zip and the others")
    with zipfile.ZipFile(folder / "lightgbm-rank.zip") as archive:
        sets = []
        for name in ("rank.train", "rank.test"):
            data, labels = load_svmlight_file(io.BytesIO(archive.read(name)), n_features=300)
            sets.append((data, labels, np.loadtxt(io.BytesIO(archive.read(f"{name}.query")), dtype=int)))
    (data, labels, group), (other, held_out, lengths) = sets
    made = DocumentRanker(epochs=3, options={"warm_up.epochs": 2}, verbose=0)
    made.fit(data, labels, group=group, eval_set=[(other, held_out)], eval_group=[lengths])
    assert made.predict(data).shape == labels.shape
    assert set(made.best_score_) == {"valid_0"}
    assert 0.6 < made.best_score_["valid_0"]["ndcg@10"] < 0.85
    assert made.best_iteration_ in (1, 2, 3)
    assert made.n_features_in_ == len(made.feature_name_) == 300
