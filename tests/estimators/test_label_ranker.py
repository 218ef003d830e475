"""LabelRanker: texts or features in, labels in their own ids out."""

import json
import pickle

import numpy as np
import pandas
import polars as pl
import pyarrow
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.metrics import ndcg_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from songrank.core.errors import UserError
from songrank.data import prepare
from songrank.estimators import LabelRanker, NotFittedError
from songrank.training import Run, load_recipe
from tests.estimators.evaluations import same_evaluations

SMALL = {"model.hidden": [16], "warm_up.epochs": 2, "batch.queries": 16}
SMALL_TEXT = {"model.dim": 8, "model.filters": 4, "model.bottleneck": 8, "warm_up.epochs": 2, "batch.queries": 16}
GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(60, 6)).astype(np.float32)
Y = (X[:, :4] + 0.1 * GENERATOR.normal(size=(60, 4)) > 0.5) * GENERATOR.choice([0.5, 1.0, 2.0], (60, 4))
BINARY = (Y > 0).astype(int)
WORDS = ["wine", "tax", "sea", "law"]
SETS = [[WORDS[item] for item in np.flatnonzero(row)] for row in BINARY]
TEXTS = [" ".join(["the", *labels, "of", f"word{at % 7}"]) for at, labels in enumerate(SETS)]
COUNTS = scipy.sparse.csr_matrix(np.maximum(np.round(3 * X), 0))


def ranker(**more):
    return LabelRanker(**{"epochs": 2, "options": SMALL, "device": "cpu", "verbose": 0, **more})


def text_ranker(**more):
    return ranker(**{"model": "xml-cnn", "options": SMALL_TEXT, **more})


def weights_of(fitted, tmp_path, name="saved"):
    fitted.save(tmp_path / name)
    return (tmp_path / name / "model.safetensors").read_bytes()


def by_hand(recipe, tmp_path, options):
    changes = [f"{key}={json.dumps(value)}" for key, value in options.items()]
    changes += [f"data={tmp_path / 'data'}", "device=cpu", "fine_tuning.epochs=2"]
    run = Run.begin(load_recipe(recipe, changes), tmp_path / "run")
    run.finish()
    return (tmp_path / "run" / "model.safetensors").read_bytes(), run


@pytest.fixture(scope="module")
def fitted():
    options = {**SMALL, "model.dropout": 0.0, "fine_tuning.decay": {}}
    return ranker(epochs=30, learning_rate=1e-2, options=options).fit(X, Y)


# ---- what is learned


def test_features_are_the_run_of_a_bag_of_words_file(tmp_path):
    rows = [f"{COUNTS.shape[0]} {COUNTS.shape[1]} 4"]
    for at in range(COUNTS.shape[0]):
        row = COUNTS[[at]]
        labels = ",".join(map(str, np.flatnonzero(BINARY[at])))
        values = " ".join(f"{j}:{v}" for j, v in zip(row.indices, row.data, strict=True))
        rows.append(f"{labels} {values}")
    (tmp_path / "bags.txt").write_text("\n".join(rows) + "\n")
    prepare("xmc", tmp_path / "bags.txt", tmp_path / "data", scale="log-l2", validation=0.1, test=0)
    weights, run = by_hand("labelling", tmp_path, SMALL)
    made = ranker().fit(COUNTS, BINARY)
    assert weights_of(made, tmp_path) == weights
    assert made.best_score_["validation"]["ndcg@5"] == run.trainer.at.best
    assert made.history_ == run.trainer.at.history


def test_texts_are_the_run_of_a_file_of_json_lines(tmp_path):
    lines = [json.dumps({"text": text, "labels": labels}) for text, labels in zip(TEXTS, SETS, strict=True)]
    (tmp_path / "texts.json").write_text("\n".join(lines) + "\n")
    prepare("xmc-text", tmp_path / "texts.json", tmp_path / "data", validation=0.1, test=0)
    weights, _ = by_hand("labelling-text", tmp_path, SMALL_TEXT)
    assert weights_of(text_ranker().fit(TEXTS, SETS), tmp_path) == weights
    assert weights_of(text_ranker().fit(pyarrow.chunked_array([TEXTS]), SETS), tmp_path) == weights


def test_it_learns_what_there_is_to_learn(fitted):
    other = np.random.default_rng(9).normal(size=(200, 6)).astype(np.float32)
    target = (other[:, :4] > 0.5).astype(int)
    found = fitted.evaluate(other, target, ["ndcg@4", "precision@1"])
    assert found.values["ndcg@4"] > 0.85
    assert found.num_empty == int((target.sum(1) == 0).sum()) > 0
    noise = ranker(epochs=1, learning_rate=1e-9, options={**SMALL, "warm_up.epochs": 0}).fit(X, Y)
    assert noise.evaluate(other, target, "ndcg@4").values["ndcg@4"] < 0.8


@pytest.mark.parametrize(
    "model",
    [
        {"name": "xml-cnn", "dim": 16, "filters": 4, "bottleneck": 16, "dropout": 0.0},
        {"name": "text-transformer", "dim": 16, "blocks": 1, "heads": 2},
    ],
    ids=lambda model: model["name"],
)
def test_texts_teach_it_words(model):
    options = {key: value for key, value in SMALL_TEXT.items() if not key.startswith("model.")}
    made = text_ranker(model=model, epochs=30, learning_rate=1e-2, options=options).fit(TEXTS, SETS)
    best = made.predict([f"the {word} of word1" for word in WORDS], k=1)[:, 0]
    assert sum(best == WORDS) >= 3
    assert made.best_score_["validation"]["ndcg@5"] > 0.9


@pytest.mark.parametrize(
    "same",
    [
        scipy.sparse.csr_matrix(Y),
        scipy.sparse.coo_array(Y),
        pandas.DataFrame(Y),
        pandas.DataFrame(Y, columns=["a", "b", "c", "d"]),
        pl.DataFrame(Y, schema=["a", "b", "c", "d"]),
        pl.DataFrame(Y[:, ::-1].copy(), schema=["d", "c", "b", "a"]),
        pl.DataFrame(Y, schema=["a", "b", "c", "d"]).to_arrow(),
    ],
)
def test_every_kind_of_matrix_of_labels_gives_the_same_weights(same, tmp_path):
    assert weights_of(ranker().fit(X, same), tmp_path) == weights_of(ranker().fit(X, Y), tmp_path)


def test_lists_of_labels_are_an_indicator_matrix(tmp_path):
    lists = [np.flatnonzero(row).tolist() for row in BINARY]
    expected = weights_of(ranker().fit(X, BINARY), tmp_path)
    for same in (lists, [set(row) for row in lists], [np.array(row, int) for row in lists], pandas.Series(lists)):
        assert weights_of(ranker().fit(X, same), tmp_path) == expected
    assert weights_of(ranker().fit(X, pl.Series(lists)), tmp_path) == expected
    assert weights_of(ranker().fit(X, Y), tmp_path) != expected


@pytest.mark.parametrize("classes", [np.array([7, 1, 3]), np.array(["b", "a", "c"])])
def test_a_column_of_classes_is_one_label_a_row(classes, tmp_path):
    one = classes[np.arange(len(X)) % 3]
    made = ranker().fit(X, one.reshape(-1, 1))
    assert made.classes_.tolist() == sorted(classes.tolist())
    flat = ranker().fit(X, one)
    assert weights_of(made, tmp_path) == weights_of(flat, tmp_path)
    assert made.evaluate(X, one.reshape(-1, 1)).values == flat.evaluate(X, one).values


@pytest.mark.parametrize(
    "same",
    [X.astype(np.float64), X.tolist(), scipy.sparse.csr_matrix(X), pandas.DataFrame(X), pl.from_numpy(X)],
)
def test_every_kind_of_features_gives_the_same_weights(same, tmp_path):
    assert weights_of(ranker().fit(same, Y), tmp_path) == weights_of(ranker().fit(X, Y), tmp_path)


def test_rows_of_counts_and_columns_of_dense_features_are_scaled(fitted):
    assert ranker().fit(COUNTS, Y).folder_.info["features"]["scale"] == "log-l2"
    assert ranker().fit(COUNTS.toarray(), Y).folder_.info["features"]["scale"] == "standardise"
    assert fitted.folder_.info["features"]["scale"] == "standardise"
    assert ranker(data_options={"scale": "none"}).fit(COUNTS, Y).folder_.info["features"]["scale"] == "none"


# ---- asking


def test_predictions_are_the_best_of_all_scores_in_the_labels_own_ids():
    for ids in (np.array([7, 1_000_000_007, -3, 12]), np.array(["zebra", "été", "a b", "10"], object)):
        lists = [ids[np.flatnonzero(row)].tolist() for row in BINARY]
        made = ranker().fit(X, lists)
        scores = made.decision_function(X)
        assert made.classes_.tolist() == sorted(ids.tolist(), key=lambda x: x.encode() if isinstance(x, str) else x)
        assert scores.dtype == np.float32
        assert scores.shape == (60, 4)
        best = made.predict(X, k=2)
        np.testing.assert_array_equal(best, made.classes_[np.argsort(-scores, axis=1, kind="stable")[:, :2]])
        assert type(best.tolist()[0][0]) is type(ids.tolist()[0])
        assert made.predict(X[:3], k=99).shape == (3, 4)


def test_a_ranking_is_a_table_of_the_kind_that_was_asked():
    made = ranker().fit(pandas.DataFrame(X), BINARY)
    table = made.rank(pandas.DataFrame(X[:5]), k=3)
    assert isinstance(table, pandas.DataFrame)
    assert table["row"].tolist() == np.repeat(np.arange(5), 3).tolist()
    assert table["rank"].tolist() == [1, 2, 3] * 5
    assert table["label"].tolist() == made.predict(X[:5], k=3).reshape(-1).tolist()
    assert (table.groupby("row")["score"].diff().dropna() <= 0).all()
    assert set(made.rank(X[:5], k=1)) == {"row", "label", "score", "rank"}


def test_an_evaluation_agrees_with_scikit_learn(fitted):
    some = (Y > 0).any(1)
    found = fitted.evaluate(X, Y, ["ndcg@3"])
    expected = ndcg_score(2.0 ** Y[some] - 1, fitted.decision_function(X[some]), k=3)
    assert found.values["ndcg@3"] == pytest.approx(expected, abs=1e-6)
    assert found.num_empty == int((~some).sum())
    assert fitted.score(X, Y) == pytest.approx(fitted.evaluate(X, scipy.sparse.csr_array(Y)).values["ndcg@5"])


def test_labels_that_were_never_seen_are_left_out_of_an_evaluation():
    made = text_ranker().fit(TEXTS, SETS)
    more = [[*labels, "unheard"] for labels in SETS]
    assert made.evaluate(TEXTS, more).values == made.evaluate(TEXTS, SETS).values
    with pytest.raises(UserError, match="^no label of Y was fitted; evaluate on rows with fitted labels$"):
        made.evaluate(TEXTS[:1], [["unheard"]])


def test_columns_are_found_by_their_names(tmp_path):
    names = list("fedcba")
    frame = pandas.DataFrame(X, columns=names)
    made = ranker().fit(frame, Y)
    np.testing.assert_array_equal(made.decision_function(frame[sorted(names)]), made.decision_function(frame))
    with pytest.raises(UserError, match="^X has no column 'e'; pass all fitted columns$"):
        made.predict(frame.drop(columns="e"))


# ---- what goes wrong

NUMBER = "expected a finite number of at least 0"
LISTS = "expected a list of whole numbers or strings per row, or an indicator matrix [rows, labels]"
TWO = "expected at least two columns, or one whole number or string per row"
MISTAKES = [
    (X, Y[1:], "Y has 59 rows, but X has 60; expected labels for each row"),
    (X, -Y - 1, f"Y is -1.0 in row 0 (from 0); {NUMBER}" if Y[0, 0] == 0 else None),
    (X, np.where(np.arange(4) == 1, np.nan, Y), f"Y is nan in row 0 (from 0); {NUMBER}"),
    (X, 0 * Y, "no training label is above 0; check the labels"),
    (X, [["a"], [1]] * 30, "Y mixes whole numbers and strings; use one type for all labels"),
    (X, [[1.5]] * 60, f"Y contains 1.5 in row 0 (from 0); {LISTS}"),
    (X, [[True]] * 60, f"Y contains True in row 0 (from 0); {LISTS}"),
    (X, Y[:, :1], f"Y is a matrix with one label, so there is nothing to rank; {TWO}"),
    (X, scipy.sparse.csr_array(BINARY[:, :1]), f"Y is a matrix with one label, so there is nothing to rank; {TWO}"),
    (X, np.ma.array(Y, mask=np.tile(np.arange(4) == 1, (60, 1))), f"Y is nan in row 0 (from 0); {NUMBER}"),
    (
        np.ma.array(X, mask=np.tile(np.arange(6) == 1, (60, 1))),
        Y,
        "X is NaN in row 0, column 1 (from 0); impute missing values first",
    ),
    (X, "tax", f"Y is 'tax'; {LISTS}"),
    (X[0], Y, "X has shape [6]; expected two dimensions, [rows, features]. Reshape your data"),
    (np.where(X > 9, X, np.nan), Y, "X is NaN in row 0, column 0 (from 0); impute missing values first"),
    ("a text", SETS, "X is a string; expected a list of texts: [X]"),
    (pandas.Series([np.nan, *TEXTS[1:]]), SETS, "X is nan in row 0 (from 0); expected a string in each row"),
    ([*TEXTS[:-1], None], SETS, "X is None in row 59 (from 0); expected a string in each row"),
]


@pytest.mark.parametrize(("data", "labels", "message"), MISTAKES)
def test_a_mistake_is_one_line(data, labels, message):
    with pytest.raises(UserError) as error:
        ranker().fit(data, labels)
    assert message is None or str(error.value) == message
    assert "\n" not in str(error.value)


def test_texts_and_features_are_not_taken_for_one_another(fitted):
    with pytest.raises(UserError, match="^X contains texts; expected features, as in fit$"):
        fitted.predict(TEXTS)
    with pytest.raises(UserError, match="^X contains features; expected texts, as in fit$"):
        text_ranker().fit(TEXTS, SETS).predict(X)
    with pytest.raises(UserError, match="^X has 5 features, but LabelRanker is expecting 6 features as input; "):
        fitted.predict(X[:, 1:])
    with pytest.raises(UserError, match="^Y has 3 columns; expected 4, one per fitted label$"):
        fitted.evaluate(X, Y[:, 1:])
    with pytest.raises(NotFittedError, match="^this LabelRanker is not fitted yet; call fit first$"):
        ranker().predict(X)
    with pytest.raises(NotFittedError):
        hasattr(ranker(), "classes_") or ranker().decision_function(X)


@pytest.mark.parametrize("k", [0, -1, 1.5, "3", True])
def test_how_many_labels_is_a_whole_number(fitted, k):
    for ask in (fitted.predict, fitted.rank):
        with pytest.raises(UserError, match=f"^k is {k!r}; expected a whole number of at least 1$"):
            ask(X, k=k)


def test_an_evaluation_may_look_at_one_label_alone(fitted):
    made = ranker().fit(X, pl.DataFrame(BINARY, schema=list("abcd")))
    alone = made.evaluate(X, pl.DataFrame({"c": BINARY[:, 2]}), "mrr")
    assert alone.num_empty == int((BINARY[:, 2] == 0).sum())


def test_silence_is_silent(capfd):
    ranker().fit(X, Y)
    assert capfd.readouterr() == ("", "")


# ---- keeping it, and scikit-learn


@pytest.mark.parametrize("ids", [WORDS, [30, 10, 20, 2**40]])
@pytest.mark.parametrize("texts", [True, False])
def test_it_survives_saving_and_pickling(tmp_path, ids, texts):
    data = TEXTS if texts else pandas.DataFrame(X, columns=list("abcdef"))
    made = (text_ranker() if texts else ranker()).fit(data, [[ids[item] for item in np.flatnonzero(row)] for row in Y])
    made.save(tmp_path / "ranker")
    for again in (LabelRanker.load(tmp_path / "ranker", "cpu"), pickle.loads(pickle.dumps(made))):
        assert again.predict(data, k=3).tolist() == made.predict(data, k=3).tolist()
        assert again.classes_.tolist() == made.classes_.tolist() == sorted(ids)
        assert again.classes_.dtype == made.classes_.dtype
        assert again.best_score_ == made.best_score_
        same_evaluations(again.evaluation_, made.evaluation_)
        assert hasattr(again, "feature_names_in_") == (not texts)


def test_a_fit_forgets_the_one_before():
    made = clone(ranker()).fit(pandas.DataFrame(X, columns=list("abcdef")), Y)
    made.set_params(model="xml-cnn", options=SMALL_TEXT).fit(TEXTS, SETS)
    assert not hasattr(made, "n_features_in_")
    assert made.classes_.tolist() == sorted(WORDS)


def test_it_ends_a_pipeline_and_is_searched_over():
    line = make_pipeline(StandardScaler(), ranker()).fit(X * 1000, BINARY)
    by_hand = ranker().fit(StandardScaler().fit_transform(X * 1000), BINARY)
    np.testing.assert_array_equal(line.predict(X * 1000), by_hand.predict(StandardScaler().fit_transform(X * 1000)))
    search = {"learning_rate": [1e-9, 1e-2]}
    made = ranker(epochs=10, options={**SMALL, "warm_up.epochs": 0, "model.dropout": 0.0})
    assert GridSearchCV(made, search, cv=KFold(2), error_score="raise").fit(X, BINARY).best_params_ == {
        "learning_rate": 1e-2
    }
