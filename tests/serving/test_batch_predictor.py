"""A model folder as a function of tables: the rows of the library, for each kind of table, in other processes."""

import pickle
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from songrank import LabelRanker
from songrank.core.errors import DataError, UserError
from songrank.data import prepare
from songrank.serving import BatchPredictor
from tests.serving.small_rank_models import documents, write
from tests.serving.small_recommend_models import USERS, by_library


def rows(table):
    return pl.DataFrame(table).rows()


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pa.table, dict], ids=["pandas", "polars", "arrow", "dict"]
)
def test_recommendations_in_the_type_of_the_table(model, make):
    predictor = BatchPredictor(model, k=2, device="cpu")
    found = predictor(make({"userId": np.array([103, 100, 999]), "age": np.array([1, 2, 3])}))
    assert type(found) is type(make({}))
    assert rows(found) == by_library(model, [103, 100, 999], 2)
    nothing = predictor(make({"userId": np.array([], np.int64)}))
    assert list(getattr(nothing, "column_names", None) or nothing) or nothing.columns
    assert len(rows(nothing)) == 0


def test_options_of_recommendations(model):
    denied = [title for _, title, *_ in by_library(model, USERS[:3], 1)]
    more = {"deny": denied, "exclude_seen": False, "fallback": "none"}
    predictor = BatchPredictor(model, k=3, column="who", **more)
    expected = by_library(model, [*USERS[:3], 7], 3, **more)
    assert predictor(pl.DataFrame({"who": [*map(str, USERS[:3]), "7"]})).rows() == [
        (str(user), *others) for user, *others in expected
    ]


def test_a_copy_in_another_process_opens_the_model_itself(model, tmp_path):
    predictor = BatchPredictor(model, k=2, device="cpu")
    expected = predictor({"userId": USERS})
    (tmp_path / "predictor").write_bytes(pickle.dumps(predictor))
    assert (tmp_path / "predictor").stat().st_size < 1000
    code = (
        "import pickle, sys; predictor = pickle.load(open(sys.argv[1], 'rb'));"
        "print(predictor({'userId': [int(word) for word in sys.argv[2:]]})['item'].tolist())"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "predictor"), *map(str, USERS)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == str(expected["item"].tolist()), done.stderr


@pytest.fixture(scope="module")
def ranker(tmp_path_factory):
    place = tmp_path_factory.mktemp("documents")
    dataset = prepare(
        "feature-table", pl.DataFrame(documents(1)), place / "data", within_query="z-rank", missing="mean"
    )
    made = write(dataset, place / "model")
    shutil.rmtree(place / "data")
    return made


@pytest.mark.parametrize("sizes", [[1000], [1, 2, 3, 1000], [5] * 200, [0, 7, 0, 1000]])
def test_lists_may_be_split_between_tables(songrank, ranker, tmp_path, sizes):
    table = pl.DataFrame(documents(2)).sort("qid", maintain_order=True)
    table.write_parquet(tmp_path / "new.parquet")
    done = songrank("rank", ranker, tmp_path / "new.parquet", "-o", tmp_path / "ranked.parquet")
    assert done.returncode == 0, done.stderr
    ends = np.minimum(np.cumsum(sizes), table.height).tolist()
    tables = [table[first:last].to_pandas() for first, last in zip([0, *ends], ends, strict=False)]
    parts = [pl.DataFrame(part) for part in BatchPredictor(ranker).over(tables)]
    found, expected = pl.concat(parts), pl.read_parquet(tmp_path / "ranked.parquet")
    assert found.columns == expected.columns
    assert found.drop("score").rows() == expected.drop("score").rows()
    assert found["score"].to_list() == pytest.approx(expected["score"].to_list(), abs=1e-5)


def test_documents_of_a_table_in_any_order(ranker):
    table = pl.DataFrame(documents(2))
    shuffled = table.with_row_index("row").sample(fraction=1.0, shuffle=True, seed=3)
    found = BatchPredictor(ranker)(shuffled)
    assert found["row"].to_list() == shuffled["row"].to_list()
    expected = BatchPredictor(ranker)(table)
    assert found.sort("row")["rank"].to_list() == expected["rank"].to_list()


@pytest.fixture(scope="module")
def labeller(tmp_path_factory):
    words = ["wine", "beer", "tax", "fish", "port", "sea", "road", "bridge"]
    texts = [f"{words[n % 8]} {words[(n * 3 + 1) % 8]} law {n % 5}" for n in range(60)]
    labels = [[text.split()[0], text.split()[1]] for text in texts]
    model = LabelRanker(epochs=2, verbose=0).fit(texts, labels)
    folder = tmp_path_factory.mktemp("labels") / "model"
    model.save(folder)
    return folder, model


def test_labels_of_texts_keep_the_other_columns(songrank, labeller, tmp_path):
    folder, _ = labeller
    table = pl.DataFrame({"id": [7, 9, 4], "text": ["wine tax", "the sea", "no known word"]})
    table.write_csv(tmp_path / "new.csv")
    done = songrank("label", folder, tmp_path / "new.csv", "-k", 2, "-o", tmp_path / "labels.parquet")
    assert done.returncode == 0, done.stderr
    expected = pl.read_parquet(tmp_path / "labels.parquet")
    found = BatchPredictor(folder, k=2)(table.with_columns(from_where=pl.lit("mail")))
    assert found.columns == ["id", "from_where", "label", "score", "rank"]
    assert found.drop("from_where").rows() == expected.rows()
    assert BatchPredictor(folder, k=2)(table[:0]).columns == ["id", "label", "score", "rank"]


def test_what_is_wrong_is_one_line(model, ranker, labeller):
    with pytest.raises(UserError, match="fallback is 'luck'; expected one of 'popular', 'none', 'error'"):
        BatchPredictor(model, fallback="luck")
    with pytest.raises(UserError, match="k is 0; expected a whole number of at least 1"):
        BatchPredictor(model, k=0)
    with pytest.raises(DataError, match="nowhere/model.json: is missing"):
        BatchPredictor("nowhere")({"user": [1]})
    with pytest.raises(DataError, match="cannot find the user column among 'age'; pass column"):
        BatchPredictor(model)({"age": [1]})
    with pytest.raises(DataError, match="row 2: userId is missing; expected an id"):
        BatchPredictor(model)(pl.DataFrame({"userId": [103, None]}))
    with pytest.raises(DataError, match="has no column .*; expected the .* features of training"):
        BatchPredictor(ranker)({"qid": [1, 2]})
    with pytest.raises(DataError, match="has a column 'rank', which the result adds; rename or remove it"):
        BatchPredictor(labeller[0])({"text": ["wine"], "rank": [1]})
