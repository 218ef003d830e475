"""Tables of label answers for new input files."""

import json
import random
import shutil

import numpy as np
import polars as pl
import pytest
import torch

from songrank import models
from songrank.data import prepare
from songrank.io.json_files import read_json, write_json
from songrank.serving import open_model
from songrank.serving.labels import label
from songrank.training.trained_model import model_sizes, write_model
from tests.serving.small_label_models import read

NEW = ["A cat sat, été!", "dog", "", 'trees; "quoted", and\tmore', "unknown words"]


READERS = {
    "tokens": {"name": "xml-cnn", "dim": 4, "filters": 3, "windows": [2], "pools": 2, "bottleneck": 4},
    "tf-idf": {"name": "label-mlp", "hidden": [4]},
}


@pytest.fixture(scope="module", params=READERS)
def of_words(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("words")
    rng = random.Random(0)
    words = ["cat", "dog", "été", "tree", "quoted", "sat"]
    rows = [{"text": " ".join(rng.choices(words, k=5)), "labels": [rng.choice("αbcdef")]} for _ in range(40)]
    (place / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    dataset = prepare("xmc-text", place / "texts.jsonl", place / "data", features=request.param)
    return write(dataset, READERS[request.param], place)


@pytest.fixture(scope="module")
def of_features(tmp_path_factory):
    place = tmp_path_factory.mktemp("features")
    rng = random.Random(0)
    rows = [f"{rng.randrange(6)} {rng.randrange(4)}:1 {4 + rng.randrange(4)}:{rng.random():.3f}\n" for _ in range(30)]
    (place / "bags.txt").write_text("30 8 6\n" + "".join(rows))
    return write(
        prepare("xmc", place / "bags.txt", place / "data", scale="l2"), {"name": "label-mlp", "hidden": [4]}, place
    )


def write(dataset, section, place):
    torch.manual_seed(0)
    made = models.create(**section, **model_sizes(dataset))
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    write_model(place / "model", made, section, dataset)
    shutil.rmtree(place / "data")
    return place / "model"


def expected(model, queries, names, k):
    """Rows as the library has them: name of the text, label, score, rank."""
    folder = open_model(model)
    rows = []
    for number, name in enumerate(names):
        (found,) = label(folder, queries[number : number + 1], k)
        pairs = zip(found.item[0].tolist(), found.score[0].tolist(), strict=True)
        rows += [
            (name, folder.item_ids[item], pytest.approx(score, rel=1e-4, abs=1e-5), rank)
            for rank, (item, score) in enumerate(pairs, 1)
        ]
    return rows


@pytest.mark.parametrize("output", ["labels.csv", "labels.parquet"])
def test_lines_of_text(songrank, of_words, tmp_path, output):
    (tmp_path / "new.txt").write_text("\n".join(NEW) + "\n")
    done = songrank("label", of_words, tmp_path / "new.txt", "-o", tmp_path / output)
    assert done.returncode == 0, done.stderr
    table = read(tmp_path / output)
    assert table.columns == ["row", "label", "score", "rank"]
    assert table.rows() == expected(of_words, NEW, range(len(NEW)), 5)


@pytest.mark.parametrize("ids", [None, [5, 3, 9, 1, 2], ["e", "d", "c", "b", "a"]])
def test_json_lines_with_ids_or_without(songrank, of_words, tmp_path, ids):
    rows = [
        {"text": text, "labels": ["whatever"]} if at else {"title": text, "content": ""} for at, text in enumerate(NEW)
    ]
    if ids is not None:
        rows = [{**row, "uid": name} for row, name in zip(rows, ids, strict=True)]
    (tmp_path / "new.jsonl").write_text("\n\n".join(map(json.dumps, rows)))
    done = songrank("label", of_words, tmp_path / "new.jsonl", "-o", tmp_path / "labels.parquet", "-k", 2)
    assert done.returncode == 0, done.stderr
    table = pl.read_parquet(tmp_path / "labels.parquet")
    assert table.columns[0] == ("row" if ids is None else "id")
    assert table.rows() == expected(of_words, NEW, ids or range(len(NEW)), 2)


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
@pytest.mark.parametrize("column", ["text", "body"])
def test_tables_of_texts(songrank, of_words, tmp_path, kind, column):
    texts = [text or "?" for text in NEW]  # a CSV file cannot tell an empty text from a missing one
    table = pl.DataFrame({"id": [f"t{at}" for at in range(5)], column: texts, "more": 1})
    file = tmp_path / f"new.{kind}"
    table.write_parquet(file) if kind == "parquet" else table.write_csv(file, separator="," if kind == "csv" else "\t")
    words = [] if column == "text" else ["--text-column", column]
    done = songrank("label", of_words, file, "-o", tmp_path / "labels.parquet", "-k", 99, *words)
    assert done.returncode == 0, done.stderr
    found = pl.read_parquet(tmp_path / "labels.parquet")
    assert found.columns[0] == "id"
    assert found.rows() == expected(of_words, texts, table["id"], 99)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(("last", "typed"), [("-9", True), ("09", False), ("nine", False)])
def test_ids_of_a_table_are_numbers_if_all_are(songrank, of_words, tmp_path, monkeypatch, kind, last, typed):
    ids, file = ["7", "8", last], tmp_path / f"new.{kind}"
    table = pl.DataFrame({"id": ids, "text": NEW[:2] + NEW[3:4]})
    table.write_parquet(file) if kind == "parquet" else table.write_csv(file)
    monkeypatch.setattr("songrank.io.tables.polars_frames._SLICE_BYTES", 1)  # the last one is not seen with the first
    done = songrank("label", of_words, file, "-o", tmp_path / "labels.parquet", "-k", 1)
    assert done.returncode == 0, done.stderr
    found = pl.read_parquet(tmp_path / "labels.parquet")["id"]
    assert (found.dtype, found.to_list()) == ((pl.Int64, [7, 8, -9]) if typed else (pl.String, ids))


def test_bags_of_words_whose_labels_are_not_looked_at(songrank, of_features, tmp_path, monkeypatch):
    dense = np.array([[1, 0, 0, 0, 2, 0, 0, 0], [0] * 8, [0, 0, 0.5, 0, 0, 0, 0, 3]], np.float32)
    (tmp_path / "new.txt").write_text("3 8 99\n98 0:1 4:2\n\n 2:0.5 7:3\n\n")
    for at_once in (1, 2**24):
        monkeypatch.setattr("songrank.serving.labels._TEXT_VALUES", at_once)
        done = songrank(
            "label", of_features, tmp_path / "new.txt", "-o", tmp_path / "l.parquet", "-k", 4, "--overwrite"
        )
        assert done.returncode == 0, done.stderr
        assert pl.read_parquet(tmp_path / "l.parquet").rows() == expected(of_features, dense, range(3), 4)


def test_blocks_of_any_size_give_the_same(songrank, of_words, tmp_path, monkeypatch):
    monkeypatch.setattr("songrank.serving.labels._TEXT_VALUES", 1)
    (tmp_path / "new.txt").write_text("\n".join(NEW))
    assert songrank("label", of_words, tmp_path / "new.txt", "-o", tmp_path / "l.csv", "-q").stdout == ""
    assert read(tmp_path / "l.csv").rows() == expected(of_words, NEW, range(len(NEW)), 5)


@pytest.mark.parametrize(
    ("name", "text", "words", "message"),
    [
        ("new.pdf", "x", [], "new.pdf: unknown suffix '.pdf'; expected texts in a file with suffix .json, .jsonl"),
        ("new.txt", "", [], "new.txt: is empty"),
        ("new.txt", "caf\xe9", [], "new.txt, line 1: byte 0xe9 is not UTF-8"),
        ("new.txt", "x", ["--text-column", "t"], "is not a table of texts; omit --text-column"),
        ("new.txt", "x", ["-k", "0"], "Invalid value for '-k'"),
        ("new.jsonl", '{"text": "x"}\n{"text"', [], "new.jsonl, line 2: is not valid JSON"),
        ("new.jsonl", '{"label": "x"}', [], "new.jsonl, line 1: has no text; keys are ['label']"),
        ("new.jsonl", '{"text": 3}', [], "new.jsonl, line 1: text is 3"),
        ("new.jsonl", '{"text": "x", "id": 1}\n{"text": "y"}', [], "new.jsonl, line 2: id is None"),
        ("new.jsonl", '{"text": "x", "id": 1}\n{"text": "y", "id": "a"}', [], "new.jsonl, line 2: id is 'a'"),
        ("new.jsonl", "\n", [], "new.jsonl: has no rows"),
        ("new.csv", "a,b\n1,2\n", [], "cannot find the text column among 'a', 'b'; pass --text-column"),
        ("new.csv", "text,b\n1,2\n", ["--text-column", "c"], "has no text column 'c'"),
        ("new.csv", "text,b\nx,2\n,3\n", [], "new.csv, line 3: text is missing; expected a string"),
    ],
)
def test_texts_that_are_wrong_are_one_line(songrank, of_words, tmp_path, monkeypatch, name, text, words, message):
    refused(songrank, of_words, tmp_path, monkeypatch, name, text, words, message)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "new.jsonl",
            '{"text": "x"}',
            "new.jsonl: contains texts; expected a .txt file in the Extreme Classification format",
        ),
        ("new.txt", "2 9 6\n0 1:1\n", "new.txt, line 1: the header gives 9 features; expected 8, as in training"),
        ("new.txt", "words\n", "new.txt, line 1: the first line is 'words'"),
        ("new.txt", "2 8 6\n0 1:1\n", "the header gives 2 rows, but there are 1"),
        ("new.txt", "1 8 6\n0 1:1\n0 1:1\n", "new.txt, line 3: the header gives 1 rows"),
        ("new.txt", "1 8 6\n0 8:1\n", "new.txt, line 2: feature is '8'"),
        ("new.txt", "1 8 6\n0 1:x\n", "new.txt, line 2: feature 1 is 'x'"),
        ("new.txt", "0 8 6\n", "new.txt: has no rows"),
    ],
)
def test_bags_that_are_wrong_are_one_line(songrank, of_features, tmp_path, monkeypatch, name, text, message):
    refused(songrank, of_features, tmp_path, monkeypatch, name, text, [], message)


@pytest.fixture(scope="module")
def of_columns(tmp_path_factory):
    """A model of a table with columns b, a and c, and the table."""
    place, rng = tmp_path_factory.mktemp("columns"), np.random.default_rng(0)
    table = pl.DataFrame({name: rng.normal(size=30) for name in "bac"})
    table = table.with_columns(labels=pl.Series([[["x", "y", "z"][row % 3]] for row in range(30)]))
    table.write_parquet(place / "rows.parquet")
    dataset = prepare("label-table", place / "rows.parquet", place / "data", scale="standardise")
    return write(dataset, {"name": "label-mlp", "hidden": [4]}, place)


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_tables_of_features_are_read_by_name(songrank, of_columns, tmp_path, monkeypatch, ending):
    monkeypatch.setattr("songrank.io.tables.polars_frames._SLICE_BYTES", 1)
    dense = np.array([[1, 2, 3], [0, -1, 0.5]], np.float32)  # b, a, c
    table = pl.DataFrame({"uid": ["p", "q"], **{name: dense[:, at] for name, at in (("c", 2), ("a", 1), ("b", 0))}})
    table, file = table.with_columns(labels=pl.lit("?")), tmp_path / f"new.{ending}"
    table.write_parquet(file) if ending == "parquet" else table.write_csv(file, separator="\t,"[ending == "csv"])
    done = songrank("label", of_columns, file, "-o", tmp_path / "l.parquet", "-k", 2)
    assert done.returncode == 0, done.stderr
    assert pl.read_parquet(tmp_path / "l.parquet").rows() == expected(of_columns, dense, ["p", "q"], 2)
    table.drop("uid", "labels").write_csv(tmp_path / "bare.csv")
    done = songrank("label", of_columns, tmp_path / "bare.csv", "-o", tmp_path / "m.parquet", "-k", 2)
    assert pl.read_parquet(tmp_path / "m.parquet").rows() == expected(of_columns, dense, [0, 1], 2)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("new.csv", "a,c\n1,2\n", "new.csv: has no column 'b'; expected the 3 features of training"),
        ("new.csv", "a,b,c\n1,,2\n", "new.csv, line 2: b is missing; expected a finite number"),
        ("new.csv", "a,b,c\n1,inf,2\n", "new.csv, line 2: b is 'inf'; expected a finite number"),
        ("new.csv", "a,b,c\n", "new.csv: has no rows"),
        ("new.txt", "1 3 3\n0 1:1\n", "new.txt: unknown suffix '.txt'; expected a .csv, .tsv, .parquet table"),
        ("new.jsonl", '{"a": 1}', "new.jsonl: contains texts; expected a .csv, .tsv, .parquet table"),
    ],
)
def test_tables_that_are_wrong_are_one_line(songrank, of_columns, tmp_path, monkeypatch, name, text, message):
    refused(songrank, of_columns, tmp_path, monkeypatch, name, text, [], message)


ARFF = (
    "@relation r\n@attribute w numeric\n@attribute colour {red, green, blue}\n@attribute x {0,1}\n@attribute y {0,1}\n"
)


@pytest.fixture(scope="module")
def of_arff(tmp_path_factory):
    place, rng = tmp_path_factory.mktemp("arff"), random.Random(0)
    rows = [
        f"{rng.random():.3f},{rng.choice(['red', 'green', 'blue'])},{row % 2},{1 - row % 2 if row % 5 else 1}\n"
        for row in range(40)
    ]
    (place / "rows.arff").write_text(ARFF + "@data\n" + "".join(rows))
    dataset = prepare("arff", place / "rows.arff", place / "data", labels=2)
    return write(dataset, {"name": "label-mlp", "hidden": [4]}, place)


def test_arff_files_with_labels_or_without(songrank, of_arff, tmp_path):
    dense = np.array([[0.5, 0, 1], [0, 0, 0], [2, 1, 0], [0, 1, 0]], np.float32)  # w, green, blue
    head, new = ARFF.split("@attribute x")[0], tmp_path / "new.arff"
    new.write_text(head + "@data\n0.5,blue\n{}\n2,green\n?,green\n")
    done = songrank("label", of_arff, new, "-o", tmp_path / "l.parquet")
    assert done.returncode == 0, done.stderr
    assert pl.read_parquet(tmp_path / "l.parquet").rows() == expected(of_arff, dense, range(4), 2)
    more = "@attribute id string\n".replace("string", "{p,q}")
    new.write_text(more + ARFF + "@data\nq,0.5,blue,?,1\n{0 q}\np,2,green,0,0\np,?,green,?,?\n")
    done = songrank("label", of_arff, new, "-o", tmp_path / "l.parquet", "--overwrite")
    assert done.returncode == 0, done.stderr
    assert pl.read_parquet(tmp_path / "l.parquet").rows() == expected(of_arff, dense, range(4), 2)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("new.arff", "@attribute w numeric\n@data\n1\n", "has no attribute 'colour'; expected the 2 attributes of"),
        (
            "new.arff",
            "@attribute w numeric\n@attribute colour {red,blue}\n@data\n1,red\n",
            "attribute 'colour' is {'red', 'blue'}, but in training it was {'red', 'green', 'blue'}",
        ),
        (
            "new.arff",
            "@attribute w {1,2}\n@attribute colour {red,green,blue}\n@data\n1,red\n",
            "attribute 'w' is {'1', '2'}, but in training it was numeric",
        ),
        ("new.arff", ARFF + "@data\n", "new.arff: has no rows"),
        ("new.arff", ARFF + "@data\n1,pink,0,0\n", "new.arff, line 7: attribute 'colour' is 'pink'"),
        (
            "new.csv",
            "w,colour\n1,red\n",
            "unknown suffix '.csv'; expected an .arff file with the attributes of training",
        ),
    ],
)
def test_arff_files_that_are_wrong_are_one_line(songrank, of_arff, tmp_path, monkeypatch, name, text, message):
    refused(songrank, of_arff, tmp_path, monkeypatch, name, text, [], message)


def refused(songrank, model, tmp_path, monkeypatch, name, text, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    done = songrank("label", model, name, "-o", "labels.csv", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_description_of_other_attributes_is_rejected(songrank, of_arff, tmp_path):
    for attributes in ([["w", None]], [["w", 3], ["c", None], ["d", None]], "abc", [["w"]], [[1, None]] * 3):
        shutil.copytree(of_arff, tmp_path / "model", dirs_exist_ok=True)
        described = tmp_path / "model" / "model.json"
        told = read_json(described)
        told["features"]["attributes"] = attributes
        write_json(described, told)
        (tmp_path / "new.arff").write_text(ARFF + "@data\n")
        done = songrank("label", tmp_path / "model", tmp_path / "new.arff", "-o", tmp_path / "l.csv")
        assert done.returncode == 2
        assert "tables are inconsistent with model.json" in done.stderr
