"""Tables of rank answers for new input files."""

import numpy as np
import polars as pl
import pytest
import torch

from songrank import models
from songrank.data import prepare
from songrank.serving import open_model
from songrank.serving.documents import score_documents
from songrank.training.trained_model import model_sizes, write_model
from tests.serving.small_rank_models import documents, write

FEATURES = ["price", "clicks", "age"]


@pytest.fixture(scope="module", params=[0, 1])
def numbered(request, tmp_path_factory):
    """A model of features that have numbers, from 0 or from 1."""
    place, first = tmp_path_factory.mktemp("numbered"), request.param
    (place / "letor.txt").write_text(letor(documents(1), first))
    dataset = prepare("letor", place / "letor.txt", place / "data", first_index=first)
    return write(dataset, place / "model"), first


def letor(rows, first):
    lines = []
    for row in rows:
        values = [f"{at}:{row[name] or 0:.6f}" for at, name in enumerate(FEATURES, first)]
        lines.append(f"{row['label']} qid:{row['qid']} {' '.join(values)} # a comment\n")
    return "".join(lines)


def expected(model, rows):
    """Score and rank of each row, list by list."""
    found = [None] * len(rows)
    for query in {row["qid"] for row in rows}:
        places = [place for place, row in enumerate(rows) if row["qid"] == query]
        features = [
            [np.nan if rows[place][name] is None else rows[place][name] for name in FEATURES] for place in places
        ]
        scores = score_documents(open_model(model), np.array(features)).tolist()
        for rank, at in enumerate(sorted(range(len(places)), key=lambda at: -scores[at]), 1):
            found[places[at]] = (pytest.approx(scores[at], rel=1e-4, abs=1e-5), rank)
    return found


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
@pytest.mark.parametrize("output", ["ranked.csv", "ranked.parquet"])
def test_tables_in_the_order_of_the_input(songrank, named, tmp_path, kind, output):
    rows = documents(2)
    table = pl.DataFrame(rows).with_columns(pl.Series("document", [f"d{n}" for n in range(len(rows))]))
    table = table.select("document", "age", "qid", "clicks", "label", "price")  # features in another order
    file = tmp_path / f"new.{kind}"
    table.write_parquet(file) if kind == "parquet" else table.write_csv(file, separator="," if kind == "csv" else "\t")
    done = songrank("rank", named, file, "-o", tmp_path / output)
    assert done.returncode == 0, done.stderr
    found = (pl.read_csv if output.endswith("csv") else pl.read_parquet)(tmp_path / output)
    assert found.columns == ["document", "qid", "label", "score", "rank"]
    assert found["document"].to_list() == table["document"].to_list()
    assert found["qid"].to_list() == table["qid"].to_list()
    assert found.select("score", "rank").rows() == expected(named, rows)


def test_blocks_of_any_size_give_the_same(songrank, named, tmp_path, monkeypatch):
    rows = documents(2)
    pl.DataFrame(rows).write_parquet(tmp_path / "new.parquet")
    monkeypatch.setattr("songrank.io.tables.polars_frames._SLICE_BYTES", 8 * 5 * 4)  # four rows
    monkeypatch.setattr("songrank.data.preparation.feature_store.CHUNK_BYTES", 1)  # one list
    for words in ([], ["--sorted"]):
        done = songrank("rank", named, tmp_path / "new.parquet", "-o", tmp_path / "r.parquet", "--overwrite", *words)
        assert done.returncode == 0, done.stderr
        found = pl.read_parquet(tmp_path / "r.parquet")
        wanted = [
            (row["qid"], row["label"], *figures) for row, figures in zip(rows, expected(named, rows), strict=True)
        ]
        if words:
            wanted.sort(key=lambda row: (row[0], row[3]))
        assert found.rows() == wanted


@pytest.mark.parametrize("by_rank", [False, True])
def test_letor_text_whose_queries_are_not_together(songrank, numbered, tmp_path, by_rank):
    model, first = numbered
    rows = [{**row, "age": row["age"] or 0.0} for row in documents(2)]
    (tmp_path / "new.txt").write_text(letor(rows, first))
    done = songrank(
        "rank", model, tmp_path / "new.txt", "-o", tmp_path / "r.parquet", *(["--sorted"] if by_rank else [])
    )
    assert done.returncode == 0, done.stderr
    found = pl.read_parquet(tmp_path / "r.parquet")
    assert found.schema == {"query": pl.Int64, "row": pl.Int64, "score": pl.Float32, "rank": pl.Int64}
    wanted = [
        (row["qid"], at, *figures) for at, (row, figures) in enumerate(zip(rows, expected(model, rows), strict=True))
    ]
    assert found.rows() == (sorted(wanted, key=lambda row: (row[0], row[3])) if by_rank else wanted)


@pytest.mark.parametrize("values", [[[1, 2]], [{"a": 1}], [b"\xff"]])
def test_what_csv_cannot_hold_is_named_and_parquet_holds_it(songrank, named, tmp_path, values):
    rows = documents(2)
    table = pl.DataFrame(rows).with_columns(pl.Series("tags", values * len(rows)))
    table.write_parquet(tmp_path / "new.parquet")
    done = songrank("rank", named, tmp_path / "new.parquet", "-o", tmp_path / "r.csv")
    assert done.returncode == 2
    kind = f"column 'tags' is of type {table['tags'].dtype}, which CSV does not support"
    fix = "write a .parquet file, or remove the column"
    assert done.stderr == f"error: {tmp_path / 'r.csv'}: {kind}; {fix}\n"
    assert not (tmp_path / "r.csv").exists()
    assert songrank("rank", named, tmp_path / "new.parquet", "-o", tmp_path / "r.parquet").returncode == 0
    assert pl.read_parquet(tmp_path / "r.parquet")["tags"].to_list() == values * len(rows)


def test_features_that_no_line_names_are_zero(songrank, numbered, tmp_path):
    model, first = numbered
    (tmp_path / "new.txt").write_text(f"0 qid:a {first}:0.5\n0 qid:a\n")
    assert songrank("rank", model, tmp_path / "new.txt", "-o", tmp_path / "r.csv").returncode == 0
    scores = score_documents(open_model(model), np.array([[0.5, 0, 0], [0, 0, 0]]))
    assert pl.read_csv(tmp_path / "r.csv")["score"].to_list() == pytest.approx(scores.tolist(), abs=1e-6)


def test_equal_scores_are_ranked_in_the_order_of_the_rows(songrank, tmp_path):
    dataset = prepare("feature-table", pl.DataFrame(documents(1)), tmp_path / "data")
    model = models.create("mlp", hidden=(2,), **model_sizes(dataset))
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    write_model(tmp_path / "model", model, {"name": "mlp", "hidden": [2]}, dataset)
    (tmp_path / "new.csv").write_text("query,price,clicks,age\n" + "b,1,1,1\na,2,2,2\n" * 20)
    done = songrank("rank", tmp_path / "model", tmp_path / "new.csv", "-o", tmp_path / "r.csv", "-q")
    assert (done.returncode, done.stdout) == (0, "")
    found = pl.read_csv(tmp_path / "r.csv").select("query", "rank").rows()
    assert found == [(query, rank) for rank in range(1, 21) for query in "ba"]


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("qid,price\n1,2\n", [], "new.csv: has no column 'clicks', 'age'; expected the 3 features of training"),
        ("price,clicks,age\n1,2,3\n", [], "cannot find the query column; pass --query-column"),
        ("a,price,clicks,age\n1,2,3,4\n", [], "cannot find the query column among 'a'; pass --query-column"),
        ("qid,price,clicks,age\n1,2,3,4\n", ["--query-column", "who"], "has no query column 'who'"),
        (
            "qid,price,clicks,age\n1,2,3,4\n1,2,high,4\n",
            [],
            "new.csv, line 3: clicks is 'high'; expected a finite number",
        ),
        ("qid,price,clicks,age\n1,2,3,4\n,2,3,4\n", [], "new.csv, line 3: qid is missing; expected an id"),
        (
            "qid,price,clicks,age,rank\n1,2,3,4,5\n",
            [],
            "has a column 'rank', which the output adds; rename or remove it",
        ),
        ("qid,price,clicks,age\n", [], "has no rows"),
        ("", [], "new.csv: is empty"),
        ("qid,price,clicks,age\n1,2,3,4\n", ["-o", "r.txt"], "r.txt: unknown suffix '.txt'"),
    ],
)
def test_tables_that_are_wrong_are_one_line(songrank, named, tmp_path, monkeypatch, text, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.csv").write_text(text)
    done = songrank("rank", named, "new.csv", *words, *([] if "-o" in words else ["-o", "r.csv"]))
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["new.csv"]


@pytest.mark.parametrize(
    ("name", "text", "words", "message"),
    [
        ("new.txt", "0 1:2\n", [], "lines have no qid:; write 'qid:ID' after each label"),
        ("new.txt", "0 qid:1 9:2\n", [], "new.txt, line 1: "),
        ("new.txt", "0 qid:1 1:x\n", [], "new.txt, line 1: "),
        ("new.txt", "# nothing\n", [], "new.txt: has no rows"),
        ("new.txt", "0 qid:1 1:2\n", ["--query-column", "q"], "is not a table; omit --query-column"),
        ("new.csv", "qid,a\n1,2\n", [], "is a table, but the model was trained on numbered features"),
        ("other.txt", "", [], "new.txt: does not exist"),
    ],
)
def test_letor_text_that_is_wrong_is_one_line(songrank, numbered, tmp_path, monkeypatch, name, text, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    done = songrank("rank", numbered[0], "new.csv" if name == "new.csv" else "new.txt", "-o", "r.csv", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_model_for_another_task_names_its_command(songrank, named, tmp_path):
    (tmp_path / "new.txt").write_text("a text\n")
    done = songrank("label", named, tmp_path / "new.txt", "-o", tmp_path / "r.csv")
    assert done.returncode == 2
    assert "contains a model for search, not for labelling; use `songrank rank`" in done.stderr


@pytest.mark.parametrize("call", ["polars.DataFrame.write_parquet", "songrank.io.arrays.ScratchArray.append"])
def test_a_disk_that_is_full_is_one_line(songrank, named, tmp_path, monkeypatch, call):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    (tmp_path / "new.csv").write_text("query,price,clicks,age\nb,1,1,1\n")
    monkeypatch.setattr(call, full)
    done = songrank("rank", named, tmp_path / "new.csv", "-o", tmp_path / "ranked.csv")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {tmp_path / 'ranked.csv'}: cannot be written (No space left on device)")
    assert [file.name for file in tmp_path.iterdir()] == ["new.csv"]
