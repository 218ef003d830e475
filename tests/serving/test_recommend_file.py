"""Tables of recommend answers for new input files."""

import csv
import importlib
import shutil

import polars as pl
import pytest

from songrank import models
from songrank.data import prepare
from songrank.io.json_files import read_json, write_json
from songrank.training.trained_model import model_sizes, write_model
from tests.serving.small_recommend_models import TITLES, USERS, by_library


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_all_users_in_both_formats(songrank, model, tmp_path, suffix):
    done = songrank("recommend", model, "all", "-o", tmp_path / f"best{suffix}", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    table = (pl.read_csv if suffix == ".csv" else pl.read_parquet)(tmp_path / f"best{suffix}")
    assert table.columns == ["userId", "item", "score", "rank", "source"]
    assert table.rows() == by_library(model, USERS, 10)
    assert [file.name for file in tmp_path.iterdir()] == [f"best{suffix}"]


@pytest.mark.parametrize(
    ("name", "text", "words", "column"),
    [
        ("u.csv", "age,user_id\n30,103\n31,100\n32,103\n", [], "user_id"),
        ("u.csv", "age;who\n30;103\n31;100\n32;103\n", ["--user-column", "who"], "who"),
        ("u.tsv", "userId\tage\n103\t3\n100\t4\n103\t5\n", [], "userId"),
        ("u.txt", "customer_ref\n103\n100\n103\n", [], "customer_ref"),
        ("u.txt", "103\n100\n103\n", [], "userId"),
        ("u.csv", "item\n103\n100\n103\n", [], "userId"),
    ],
)
def test_files_of_users(songrank, model, tmp_path, name, text, words, column):
    (tmp_path / name).write_text(text)
    done = songrank("recommend", model, tmp_path / name, "-o", tmp_path / "best.parquet", "-k", 2, *words)
    assert done.returncode == 0, done.stderr
    table = pl.read_parquet(tmp_path / "best.parquet")
    assert table.columns[0] == column
    assert table.rows() == by_library(model, [103, 100], 2)
    assert done.stderr == f"warning: {tmp_path / name}: 3 rows have 2 distinct users; each is answered once\n"
    assert done.stdout.startswith("2 users; ")


@pytest.mark.parametrize("kind", [pl.Int32, pl.UInt64, pl.Float64, pl.String])
def test_parquet_of_users_of_any_type(songrank, model, tmp_path, kind):
    pl.DataFrame({"user": pl.Series([103, 100, 999]).cast(kind)}).write_parquet(tmp_path / "u.parquet")
    done = songrank("recommend", model, tmp_path / "u.parquet", "-o", tmp_path / "best.parquet", "-k", 2)
    assert done.returncode == 0, done.stderr
    table = pl.read_parquet(tmp_path / "best.parquet")
    assert table.schema["user"] == pl.Int64
    assert table.rows() == by_library(model, [103, 100, 999], 2)


def test_strangers_in_words_make_the_column_one_of_texts(songrank, model, tmp_path):
    (tmp_path / "u.csv").write_text("user\n103\nnobody\n0103\n")
    done = songrank("recommend", model, tmp_path / "u.csv", "-o", tmp_path / "best.parquet", "-k", 2)
    assert "3 users; 2 new users received the most popular items; wrote 6 rows" in done.stdout
    assert pl.read_parquet(tmp_path / "best.parquet").rows() == by_library(model, ["103", "nobody", "0103"], 2)
    words = ["-o", tmp_path / "none.parquet", "-k", 2, "--fallback", "none"]
    done = songrank("recommend", model, tmp_path / "u.csv", *words)
    assert "2 new users received no items; wrote 2 rows" in done.stdout
    (tmp_path / "strangers.csv").write_text("user\nnobody\n")
    words[1] = tmp_path / "empty.parquet"
    assert "wrote 0 rows" in songrank("recommend", model, tmp_path / "strangers.csv", *words).stdout
    assert pl.read_parquet(tmp_path / "empty.parquet").columns == ["user", "item", "score", "rank", "source"]


def test_items_that_may_be_and_may_not_be(songrank, model, tmp_path):
    with (tmp_path / "allow.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["item"], *([title] for title in TITLES[:20])])
    pl.DataFrame({"price": [1] * 10, "item_id": TITLES[5:15]}).write_parquet(tmp_path / "deny.parquet")
    words = ["--allow", tmp_path / "allow.csv", "--deny", tmp_path / "deny.parquet", "--with-seen", "-k", 12, "-q"]
    done = songrank("recommend", model, "-o", tmp_path / "best.parquet", *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    more = {"exclude_seen": False, "allow": TITLES[:20], "deny": TITLES[5:15]}
    assert pl.read_parquet(tmp_path / "best.parquet").rows() == by_library(model, USERS, 12, **more)


def test_items_are_found_by_the_name_that_the_data_gave_them(songrank, tmp_path):
    rows = [{"who": f"v{v}", "Stock Code": f"s{(v * 3 + n) % 12}", "time": n} for v in range(8) for n in range(5)]
    named = {"user_column": "who", "item_column": "Stock Code"}
    dataset = prepare("interactions", pl.DataFrame(rows), tmp_path / "data", **named)
    made = models.create("matrix-factorisation", dim=2, **model_sizes(dataset))
    write_model(tmp_path / "model", made, {"name": "matrix-factorisation", "dim": 2}, dataset)
    (tmp_path / "allow.csv").write_text("price,Stock Code\n1,s1\n2,s2\n3,s3\n")
    (tmp_path / "deny.csv").write_text("stock_code,price\ns2,1\n")
    words = ["--allow", tmp_path / "allow.csv", "--deny", tmp_path / "deny.csv", "--with-seen"]
    done = songrank("recommend", tmp_path / "model", "-o", tmp_path / "best.parquet", *words)
    assert done.returncode == 0, done.stderr
    assert set(pl.read_parquet(tmp_path / "best.parquet")["Stock Code"]) == {"s1", "s3"}
    (tmp_path / "deny.csv").write_text("what,price\ns2,1\n")
    done = songrank("recommend", tmp_path / "model", "-o", tmp_path / "other.parquet", *words)
    assert "the item column among 'what', 'price'; expected a single column, or a column Stock Code\n" in done.stderr


def test_a_list_of_titles_needs_no_name(songrank, model, tmp_path):
    (tmp_path / "allow.txt").write_text("Film 3\nFilm 6\nFilm 9\n")
    words = ["--allow", tmp_path / "allow.txt", "--with-seen", "-o", tmp_path / "best.parquet"]
    assert songrank("recommend", model, *words).returncode == 0
    assert set(pl.read_parquet(tmp_path / "best.parquet")["item"]) == {"Film 3", "Film 6", "Film 9"}


def test_a_table_that_is_there_is_kept_unless_given_up(songrank, model, tmp_path):
    place = tmp_path / "new" / "best.csv"
    assert songrank("recommend", model, "-o", place).returncode == 0
    before = place.read_bytes()
    done = songrank("recommend", model, "-o", place, "-k", 1)
    assert done.returncode == 2
    assert done.stderr == f"error: {place}: already exists; pass --overwrite to replace it\n"
    assert place.read_bytes() == before
    assert songrank("recommend", model, "-o", place, "-k", 1, "--overwrite").returncode == 0
    assert pl.read_csv(place).height == len(USERS)


def test_many_parts_are_one_table_in_order(songrank, model, tmp_path, monkeypatch):
    monkeypatch.setattr("songrank.serving.recommendations._SCORES", {"cpu": 1})
    monkeypatch.setattr("songrank.io.tables.table_writer._PART_ROWS", 7)
    assert songrank("recommend", model, "-o", tmp_path / "best.parquet").returncode == 0
    assert pl.read_parquet(tmp_path / "best.parquet").rows() == by_library(model, USERS, 10)


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("user\n1\n", ["-o", "best.xlsx"], "best.xlsx: unknown suffix '.xlsx'; expected .csv or .parquet"),
        ("user\n1\n", ["-o", "folder.csv"], "folder.csv: is a directory"),
        ("user\n1\n", ["-o", "u.csv/best.csv"], "u.csv/best.csv: cannot be written"),
        ("user\n1\n", ["-o", "best.csv", "-k", "0"], "Invalid value for '-k'"),
        (
            "user\n1\n",
            ["-o", "best.csv", "--fallback", "luck"],
            "fallback is 'luck'; expected one of popular, none, error",
        ),
        ("user\nzz\n", ["-o", "best.csv", "--fallback", "error"], "unknown user 'zz'; expected known users"),
        ("user\n1\n", ["-o", "best.csv", "--device", "tpu"], "device is 'tpu'; expected auto, cpu, cuda"),
        ("user\n1\n", ["-o", "best.csv", "--user-column", "who"], "has no user column 'who'; columns are 'user'"),
        (
            '{"user": 1}\n',
            ["-o", "best.csv"],
            "u.csv, line 1: contains JSON, not a table; convert it to CSV or Parquet",
        ),
        (
            "1,20\n2,30\n",
            ["-o", "best.csv"],
            "u.csv: has no header: its columns would be called '1', '20'; add a first",
        ),
        ("a,b\n1,2\n", ["-o", "best.csv"], "cannot find the user column among 'a', 'b'; pass --user-column"),
        ("user\n", ["-o", "best.csv"], "u.csv: has no rows"),
        ("", ["-o", "best.csv"], "u.csv: is empty"),
        ("user,age\n1,2\n,3\n", ["-o", "best.csv"], "u.csv, line 3: user is missing; expected an id"),
        ("user,age\n1\n", ["-o", "best.csv"], "u.csv, line 2: has 1 columns"),
        ("user\n1\n", ["-o", "best.csv", "--allow", "nowhere.csv"], "nowhere.csv: does not exist; check the path"),
        ("user\n1\n", ["-o", "best.csv", "--allow", "u.csv"], "allow has no item known to the model"),
        (
            "user\n1\n",
            ["-o", "best.csv", "--deny", "two.csv"],
            "cannot find the item column among 'a', 'b'; expected a single column",
        ),
        ("user\n1\n", [], "Missing option '-o'"),
    ],
)
def test_what_is_wrong_is_one_line(songrank, model, tmp_path, monkeypatch, text, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "u.csv").write_text(text)
    (tmp_path / "two.csv").write_text("a,b\n1,2\n")
    (tmp_path / "folder.csv").mkdir()
    before = sorted(tmp_path.iterdir())
    done = songrank("recommend", model, "u.csv", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143), (OSError(28, "No space"), 2)]
)
def test_whatever_stops_it_leaves_what_was_there(songrank, model, tmp_path, monkeypatch, suffix, error, code):
    writer = importlib.import_module("songrank.io.tables.table_writer").TableWriter
    place, write = tmp_path / f"best{suffix}", writer.write
    place.write_text("what was there")
    monkeypatch.setattr("songrank.serving.recommendations._SCORES", {"cpu": 1})
    monkeypatch.setattr("songrank.io.tables.table_writer._PART_ROWS", 5)

    def stop(self, rows):
        if self.rows > 50:
            monkeypatch.setattr(pl.DataFrame, f"write_{suffix[1:]}", fail)
        write(self, rows)

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(writer, "write", stop)
    done = songrank("recommend", model, "-o", place, "--overwrite")
    assert done.returncode == code
    assert list(tmp_path.iterdir()) == [place]
    assert place.read_text() == "what was there"
    assert done.stderr.count("\n") <= 1


def test_what_a_killed_process_left_is_cleared_up(songrank, model, tmp_path):
    left = tmp_path / ".songrank-new-best.parquet"
    left.mkdir()
    (left / "part-7.parquet").write_text("half")
    assert songrank("recommend", model, "-o", tmp_path / "best.parquet").returncode == 0
    assert [file.name for file in tmp_path.iterdir()] == ["best.parquet"]
    assert pl.read_parquet(tmp_path / "best.parquet").rows() == by_library(model, USERS, 10)


def test_folders_that_hold_no_model_for_users(songrank, model, tmp_path):
    done = songrank("recommend", tmp_path, "-o", tmp_path / "best.csv")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "model.json: is missing; expected a run directory written by `songrank train`" in done.stderr
    shutil.copytree(model, tmp_path / "copy")
    described = tmp_path / "copy" / "model.json"
    write_json(described, {**read_json(described), "version": 99})
    done = songrank("recommend", tmp_path / "copy", "-o", tmp_path / "best.csv")
    assert done.returncode == 2
    assert "has format version 99" in done.stderr


def test_a_mistyped_item_is_warned_of(songrank, model, tmp_path):
    (tmp_path / "deny.txt").write_text("item\nFilm 3\nFilm 3x\n")
    done = songrank("recommend", model, "-o", tmp_path / "best.csv", "--deny", tmp_path / "deny.txt")
    assert done.returncode == 0
    assert done.stderr == f"warning: {tmp_path / 'deny.txt'}: 1 of 2 items are unknown to the model\n"
