"""What a user turns to next, by commands: a log to a run, its figures, its answers, and answers for strangers."""

import csv
import json
import shutil

import polars as pl
import pytest

from songrank.serving import open_model, recommend

ITEMS = 12
SMALL = ["model.dim=16", "model.blocks=1", "model.length=5", "batch.queries=16", "warm_up.learning_rate=0.01"]
SHORT = ["warm_up.epochs=25", "fine_tuning.epochs=4", "device=cpu"]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """30 visitors who go from each product to the next, rows of all mixed by the hour."""
    file = tmp_path_factory.mktemp("log") / "clicks.csv"
    rows = [(f"v{v:02}", f"sku-{(5 * v + n) % ITEMS:02}", n) for n in range(9) for v in range(30) if n < 5 + v % 5]
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([("visitor", "sku", "hour"), *rows])
    return file


@pytest.fixture
def run(songrank, log, tmp_path):
    columns = ["--user-column", "visitor", "--item-column", "sku", "--time-column", "hour"]
    assert songrank("data", "prepare", "interactions", log, "-o", tmp_path / "data", *columns, "-q").returncode == 0
    words = [f"data={tmp_path / 'data'}", *SMALL, *SHORT]
    done = songrank("train", "sequences", *words, "-o", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    return tmp_path / "run"


def after(item, steps=1):
    return f"sku-{(int(item[-2:]) + steps) % ITEMS:02}"


def test_from_a_log_to_figures_pages_and_answers(songrank, run, log, tmp_path):
    told = json.loads((run / "evaluation" / "test.json").read_text())["metrics"]
    assert told["ndcg@10"] > 0.9
    again = json.loads(songrank("evaluate", run, "--json", "--device", "cpu").stdout)
    assert again["metrics"] == told
    compared = songrank("compare", run, "--yardstick", "popularity")  # the former name
    assert compared.returncode == 0, compared.stderr
    assert "popularity" in compared.stdout
    assert songrank("report", run).returncode == 0
    assert "exact g" in (run / "report.html").read_text()

    shutil.rmtree(tmp_path / "data")
    done = songrank("recommend", run, "-o", tmp_path / "best.csv", "-k", 1)
    assert done.stdout == f"30 users; wrote 30 rows to {tmp_path / 'best.csv'}\n"
    best = dict(pl.read_csv(tmp_path / "best.csv").select("visitor", "sku").rows())
    last = {visitor: sku for visitor, sku, _ in csv.reader(log.open()) if visitor != "visitor"}
    right = [best[visitor] == after(sku) for visitor, sku in last.items()]
    assert sum(right) >= 27  # what was last of all, in test, is what counts


def test_strangers_are_answered_by_a_table_of_what_they_turned_to(songrank, run, tmp_path):
    rows = "sku,visitor,hour\nsku-06,zoe,3\nsku-05,zoe,2\nsku-01,abe,1\nsku-04,zoe,1\nsku-00,abe,0\nnew,abe,2\n"
    (tmp_path / "today.csv").write_text(rows)
    words = ["--histories", tmp_path / "today.csv", "-k", 2, "--device", "cpu"]
    done = songrank("recommend", run, *words, "-o", tmp_path / "best.parquet")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"2 users; wrote 4 rows to {tmp_path / 'best.parquet'}\n"
    assert done.stderr == f"warning: {tmp_path / 'today.csv'}: 1 of 6 items are unknown to the model\n"
    best = pl.read_parquet(tmp_path / "best.parquet")
    assert best.columns == ["visitor", "sku", "score", "rank", "source"]
    assert best.filter(pl.col("rank") == 1).select("visitor", "sku").rows() == [("abe", "sku-02"), ("zoe", "sku-07")]
    assert set(best["source"]) == {"model"}


def test_a_model_without_times_looks_for_none(songrank, log, tmp_path):
    columns = ["--user-column", "visitor", "--item-column", "sku", "--time-column", "none"]
    turned = tmp_path / "turned.csv"
    head, *rows = log.read_text().splitlines(keepends=True)
    turned.write_text(head.replace("hour", "timestamp") + "".join(rows[::-1]))
    assert songrank("data", "prepare", "interactions", turned, "-o", tmp_path / "data", *columns, "-q").returncode == 0
    words = [f"data={tmp_path / 'data'}", *SMALL, "warm_up.epochs=1", "fine_tuning.epochs=1", "device=cpu"]
    assert songrank("train", "sequences", *words, "-o", tmp_path / "run", "-q").returncode == 0
    asked = {}
    for name, more in {"known": [], "histories": ["--histories", turned]}.items():
        done = songrank("recommend", tmp_path / "run", *more, "-o", tmp_path / f"{name}.csv", "-k", 3)
        assert done.returncode == 0, done.stderr
        asked[name] = pl.read_csv(tmp_path / f"{name}.csv").sort("visitor", "rank").select("visitor", "sku", "rank")
    assert asked["known"].equals(asked["histories"])
    done = songrank(
        "recommend", tmp_path / "run", "--histories", turned, "--fallback", "none", "-o", tmp_path / "x.csv"
    )
    assert done.returncode == 2
    assert "--fallback none is for users without a history; leave it out with --histories" in done.stderr


@pytest.mark.parametrize("least", [None, 4])
def test_rows_that_are_not_liked_do_not_count_in_a_history(songrank, log, tmp_path, least):
    rated = tmp_path / "rated.csv"
    head, *rows = log.read_text().splitlines()
    rated.write_text("\n".join([f"{head},rating", *(f"{row},{at % 6}" for at, row in enumerate(rows))]) + "\n")
    columns = ["--user-column", "visitor", "--item-column", "sku", "--time-column", "hour", "-q"]
    columns += [] if least is None else ["--min-rating", least]
    assert songrank("data", "prepare", "interactions", rated, "-o", tmp_path / "data", *columns).returncode == 0
    words = [f"data={tmp_path / 'data'}", *SMALL, "warm_up.epochs=1", "fine_tuning.epochs=1", "device=cpu"]
    assert songrank("train", "sequences", *words, "-o", tmp_path / "run", "-q").returncode == 0
    for seen in ([], ["--with-seen"]):  # what was met without being liked is not recommended either
        best = {}
        for name, more in {"known": [], "histories": ["--histories", rated]}.items():
            file = tmp_path / f"{name}{len(seen)}.csv"
            done = songrank("recommend", tmp_path / "run", *more, "-o", file, "-k", 2, *seen)
            assert done.returncode == 0, done.stderr
            best[name] = dict(pl.read_csv(file).group_by("visitor", maintain_order=True).agg("sku").rows())
        assert {visitor: best["histories"][visitor] for visitor in best["known"]} == best["known"]


def test_nor_do_they_where_the_data_set_names_no_columns(songrank, tmp_path):
    rows = [(v, 1 + (5 * v + n) % ITEMS, 1 + (v + n) % 5, 100 + n) for v in range(1, 31) for n in range(9)]
    (tmp_path / "ml").mkdir()
    (tmp_path / "ml" / "u.data").write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    words = ["data", "prepare", "movielens-100k", tmp_path / "ml", "-o", tmp_path / "data", "--min-rating", 4, "-q"]
    assert songrank(*words).returncode == 0
    short = ["warm_up.epochs=1", "fine_tuning.epochs=1", "device=cpu", "-q"]
    words = [f"data={tmp_path / 'data'}", *SMALL, *short]
    assert songrank("train", "sequences", *words, "-o", tmp_path / "run").returncode == 0
    best = []
    for name, least in (("all", 0), ("liked", 4)):
        lines = [",".join(map(str, row)) for row in rows if row[2] >= least]
        (tmp_path / f"{name}.csv").write_text("\n".join(["user_id,movie_id,rating,timestamp", *lines]) + "\n")
        words = ["--histories", tmp_path / f"{name}.csv", "-o", tmp_path / f"{name}-best.csv", "--with-seen", "-q"]
        assert songrank("recommend", tmp_path / "run", *words).returncode == 0
        best.append((tmp_path / f"{name}-best.csv").read_text())
    assert best[0] == best[1]


def test_labels_are_not_looked_for_where_training_had_none(songrank, tmp_path):
    (tmp_path / "log.txt").write_text(
        "".join(f"{v} " + " ".join(str((v + n) % ITEMS) for n in range(7)) + "\n" for v in range(20))
    )
    assert songrank("data", "prepare", "sequences", tmp_path / "log.txt", "-o", tmp_path / "data", "-q").returncode == 0
    short = ["warm_up.epochs=1", "fine_tuning.epochs=1", "device=cpu", "-q"]
    words = [f"data={tmp_path / 'data'}", *SMALL, *short]
    assert songrank("train", "sequences", *words, "-o", tmp_path / "run").returncode == 0
    (tmp_path / "today.csv").write_text("user,item,label\nz,1,cart\nz,2,\n")
    words = ["--histories", tmp_path / "today.csv", "-o", tmp_path / "best.csv", "-k", 2, "-q"]
    done = songrank("recommend", tmp_path / "run", *words)
    assert done.returncode == 0, done.stderr
    assert pl.read_csv(tmp_path / "best.csv").height == 2


def test_training_items_are_no_figure(songrank, run):
    done = songrank("evaluate", run, "--split", "train")
    assert done.returncode == 2
    assert "a history model reads the items of the training split; evaluate it on validation or test" in done.stderr


def test_a_known_users_own_history_gives_the_same_answer(songrank, run, log, tmp_path):
    pl.read_csv(log).rename({"visitor": "who", "sku": "what", "hour": "at"}).write_parquet(tmp_path / "all.parquet")
    columns = ["--user-column", "who", "--item-column", "what", "--time-column", "at"]
    words = ["--histories", tmp_path / "all.parquet", *columns, "-o", tmp_path / "best.parquet", "-k", 3, "-q"]
    done = songrank("recommend", run, *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    folder = open_model(run)
    users = list(folder.query_ids)
    wanted = [
        (users[at], folder.item_ids[item], pytest.approx(score, abs=1e-5))
        for batch in recommend(folder, users, 3)
        for at, item, score in zip(batch.position.tolist(), batch.item.tolist(), batch.score.tolist(), strict=True)
    ]
    assert pl.read_parquet(tmp_path / "best.parquet").select("who", "sku", "score").rows() == wanted


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("who,sku\na,sku-01\n", [], "cannot find the user column among 'who', 'sku'; pass --user-column"),
        (
            "visitor,what\na,sku-01\n",
            [],
            "cannot find the item column among 'visitor', 'what'; pass --item-column",
        ),
        ("visitor,sku\na,sku-01\n", ["--time-column", "day"], "has no time column 'day'; columns are 'visitor', 'sku'"),
        ("visitor,sku,hour\na,sku-01,soon\n", [], "line 2: hour is 'soon'; expected a number, or a date"),
        ("visitor,sku\na,\n", [], "line 2: sku is"),
        ("visitor,sku\na,sku-01\n", ["all.csv"], "--histories already selects the users; leave out all.csv"),
    ],
)
def test_a_table_that_cannot_be_read_is_one_line(songrank, run, tmp_path, text, words, message):
    (tmp_path / "today.csv").write_text(text)
    done = songrank("recommend", run, *words, "--histories", tmp_path / "today.csv", "-o", tmp_path / "best.csv")
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "best.csv").exists()


def test_a_model_of_ids_is_refused_in_one_line(songrank, run, tmp_path):
    words = [f"data={tmp_path / 'data'}", "model.dim=4", "warm_up.epochs=1", "fine_tuning.epochs=1", "-q"]
    assert songrank("train", "recommendation", *words, "-o", tmp_path / "neumf").returncode == 0
    (tmp_path / "today.csv").write_text("visitor,sku\na,sku-01\n")
    words = ["--histories", tmp_path / "today.csv", "-o", tmp_path / "best.csv"]
    done = songrank("recommend", tmp_path / "neumf", *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "contains matrix-factorisation, which does not read histories; train with model=sequence" in done.stderr
    done = songrank("recommend", run, "--item-column", "sku", "-o", tmp_path / "best.csv")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--item-column and --time-column need --histories" in done.stderr


def test_a_search_over_it(songrank, run, tmp_path):
    pytest.importorskip("optuna")
    words = [f"data={tmp_path / 'data'}", *SMALL, "warm_up.epochs=2", "fine_tuning.epochs=1", "device=cpu"]
    search = ["--search", "model.length=3,5", "--search", "loss.gamma=0.1..0.9", "--trials", 2]
    done = songrank("tune", "sequences", *words, *search, "-o", tmp_path / "study", "-q")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "study" / "best.yaml").exists()
