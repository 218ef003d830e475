"""The compare command as a user runs it, on folders such as training writes."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.numpy import load_file, save_file

from songrank.baselines import measure
from songrank.data import open_dataset
from songrank.metrics.comparison import paired_difference
from tests.cli.outcomes import refused
from tests.cli.small_sets import recipe


def labels(compare, *words):
    done = compare(*words, "--json")
    assert done.returncode == 0, done.stderr
    return [method["label"] for method in json.loads(done.stdout)["methods"]]


def test_json_holds_means_and_differences_to_the_first_method(compare, write):
    song = np.stack([write(f"song-{seed}", seed=seed, shift=0.3) for seed in (0, 1, 2)])
    bce = np.stack([write(f"bce-{seed}", "bce", seed=seed) for seed in (2, 0, 1)])
    done = compare("bce-0", "bce-1", "bce-2", "song-0", "song-1", "song-2", "--json", "--level", "0.9")
    result = json.loads(done.stdout)
    assert (result["baseline"], result["queries"], result["empty"], result["folds"]) == ("bce", 6, 1, 1)
    base, method = result["methods"]
    assert base["differences"] == {}
    assert method["seeds"] == [0, 1, 2]
    assert method["metrics"]["ndcg@10"]["mean"] == pytest.approx(np.nanmean(song))
    assert method["metrics"]["ndcg@10"]["sd"] == pytest.approx(np.nanmean(song, 1).std(ddof=1))
    expected = paired_difference(torch.tensor(song), torch.tensor(bce[[1, 2, 0]]), same_seeds=True, level=0.9)
    found = method["differences"]["ndcg@10"]
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high))
    assert found["wins"] + found["ties"] + found["losses"] == 5
    assert found["paired_seeds"]


def test_tables_show_all_figures_and_how_they_were_made(compare, write):
    for seed in range(3):
        write(f"song-{seed}", seed=seed, shift=0.25, metrics=("ndcg@10", "mrr"))
        write(f"bce-{seed}", "bce", seed=seed, metrics=("mrr", "ndcg@10"))
    done = compare(".", "--baseline", "song", "--metric", "ndcg@10")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["method", "seeds", "ndcg@10"]
    assert [line.split()[:2] for line in lines[1:3]] == [["bce", "3"], ["song", "3"]]
    assert "difference to song" in lines[4]
    assert "95% interval" in lines[4]
    assert "mrr" not in done.stdout
    policies, intervals = lines[-2:]
    assert policies == ("test split: 6 queries, 1 without relevant items (left out); ties: pessimistic; gain: exp2")
    assert "over queries and seeds, with runs of the same seed paired" in intervals


def test_markdown_has_tables_that_parse(compare, write):
    write("one", "song|x", candidates=1000)
    write("two", "bce", candidates=1000)
    done = compare("one", "two", "--markdown")
    means, differences, policies, intervals = done.stdout.strip().split("\n\n")
    for table, rows in ((means, 2), (differences, 1)):
        cells = [line.replace("\\|", "").strip("|").split("|") for line in table.splitlines()]
        assert len({len(row) for row in cells}) == 1
        assert len(cells) == rows + 2
        assert set("".join(cells[1])) == set(" -:")
    assert "song\\|x" in means
    assert policies.endswith("; 1,000 sampled candidates")
    assert "one seed per method: the variation between seeds is not included" in intervals


def test_folds_are_averaged_and_counted(compare, write):
    values = {}
    for fold in "abc":
        for loss in ("song", "bce"):
            values[loss, fold] = write(f"{loss}-{fold}", loss, data=fold, shift=0.1 * (loss == "song"))
    result = json.loads(compare(".", "--json").stdout)
    assert (result["folds"], result["queries"]) == (3, 18)
    song = next(method for method in result["methods"] if method["label"] == "song")
    assert song["metrics"]["ndcg@10"]["mean"] == pytest.approx(np.mean([np.nanmean(values["song", f]) for f in "abc"]))
    assert song["metrics"]["ndcg@10"]["sd"] is None
    shown = compare(".").stdout
    assert shown.splitlines()[0].split() == ["method", "seeds", "folds", "ndcg@10"]
    assert "test split of 3 data sets: 18 queries" in shown


def test_one_method_alone_has_means_and_no_differences(compare, write):
    write("one", seed=1)
    write("two", seed=2)
    done = compare("one", "two")
    assert "±" in done.stdout
    assert "difference" not in done.stdout
    assert "interval" not in done.stdout


def test_a_method_with_one_seed_is_said_to_have_one(compare, write):
    write("lightgbm", "lambdarank", model="lightgbm")
    for seed in (0, 1):
        write(f"song-{seed}", seed=seed)
    note = compare(".").stdout.splitlines()[-1]
    assert "lambdarank: one seed, so the variation between seeds is not included" in note
    assert "with two seeds the intervals may be too narrow" in note


def test_a_label_is_the_loss_where_that_is_enough(compare, write):
    write("one", "song", loss_weight=3, device="cpu", title="x")
    write("two", "song", loss_weight=3, device="cuda", seed=1, evaluation={"metrics": ["mrr"]})
    write("three", "lambdarank", model="lightgbm")
    assert labels(compare, "one", "two", "three") == ["song", "lambdarank"]


def test_a_label_names_the_model_where_models_differ(compare, write):
    write("one", "lambdarank", model="mlp", batch={"queries": 4})
    write("two", "lambdarank", model="lightgbm")
    write("three", "song")
    assert labels(compare, "one", "two", "three") == ["mlp lambdarank", "lightgbm lambdarank", "song"]


def test_a_label_names_the_keys_that_differ_with_the_same_name_only(compare, write):
    one = {"loss": {"name": "song", "gamma": 0.1, "k": 1.0}, "fine_tuning": {"clip": None}}
    two = {"loss": {"name": "song", "gamma": 0.5, "k": 1}, "fine_tuning": {"seed": 3}}
    three = {"loss": {"name": "song", "gamma": 0.5, "k": 1}, "fine_tuning": {"reset_head": True}}
    for name, config in (("one", one), ("two", two), ("three", three)):
        write(name)
        file = Path(name, "config.yaml")
        file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | config))
    write("four", "bce", batch={"queries": 7})
    assert labels(compare, "one", "two", "three", "four") == [
        "song loss.gamma=0.1 fine_tuning.reset_head=none",
        "song loss.gamma=0.5 fine_tuning.reset_head=none",
        "song loss.gamma=0.5 fine_tuning.reset_head=yes",
        "bce",
    ]


def test_an_ensemble_is_told_from_its_members_which_keep_their_name(compare, write):
    write("one", "song")
    write("whole", "song", members=3)
    assert labels(compare, "one", "whole") == ["song", "song members=3"]


def test_methods_whose_labels_would_look_alike_are_kept_apart(compare, write):
    write("one", k=1)
    write("two", k="1")
    assert labels(compare, "one", "two") == ["song k=1", "song k=1 #2"]


@pytest.mark.parametrize("word", ["bce", "runs/bce/seed-0", "runs/bce", "runs/bce/seed-1/"])
def test_the_baseline_is_a_label_or_a_folder(compare, write, word):
    for loss in ("song", "bce"):
        for seed in (0, 1):
            write(f"runs/{loss}/seed-{seed}", loss, seed=seed)
    done = compare("runs/song", "runs/bce", "--baseline", word, "--json")
    assert json.loads(done.stdout)["baseline"] == "bce"


def test_a_run_that_is_given_twice_counts_once(compare, write):
    write("runs/one")
    done = compare("runs", "runs/one", "--json")
    assert json.loads(done.stdout)["methods"][0]["runs"] == ["runs/one"]


def test_words_of_a_run_reach_the_terminal_as_words(compare, write):
    write("one", "[red]x[/red]\x1b[31m\n")
    shown = compare("one").stdout
    assert "[red]x[/red]\\x1b[31m\\n" in shown
    assert "\x1b" not in shown


def test_another_split_is_read_from_its_own_files(compare, write, tmp_path):
    write("one")
    for suffix in ("json", "safetensors"):
        (tmp_path / f"one/evaluation/test.{suffix}").rename(tmp_path / f"one/evaluation/validation.{suffix}")
    assert compare("one", "--split", "validation").stdout.count("validation split: 6 queries") == 1


def remove(name):
    return lambda folder: (folder / name).unlink()


def put(name, content):
    return lambda folder: (folder / name).write_text(content)


def change(**values):
    def apply(folder):
        file = folder / "evaluation/test.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | values))

    return apply


def save(**values):
    return lambda folder: save_file(values or {"mrr": np.zeros(6)}, folder / "evaluation/test.safetensors")


def zero_run(folder):
    change(metrics={"ndcg@10": 0})(folder)
    save(**{"ndcg@10": np.zeros(6)})(folder)


def no_evaluation(folder):
    for file in (folder / "evaluation").iterdir():
        file.unlink()


def test_of_a_folder_of_runs_unfinished_ones_are_left_out_and_told(compare, write, tmp_path):
    for name, loss in (("runs/one", "song"), ("runs/two", "bce"), ("runs/begun", "bce")):
        write(name, loss, seed=int(name == "runs/begun"))
    no_evaluation(tmp_path / "runs/begun")
    done = compare("runs", "--json")
    assert done.returncode == 0
    assert [method["runs"] for method in json.loads(done.stdout)["methods"]] == [["runs/one"], ["runs/two"]]
    assert done.stderr == (
        "warning: runs/begun: skipped, because it has no evaluation; "
        "finish it with `songrank train --resume runs/begun`\n"
    )
    refused(compare("runs", "runs/begun"), "runs/begun: has no evaluation of the test split; finish it with")
    (tmp_path / "runs/begun/run.json").write_text('{"status": "failed", "error": "loss is nan"}')
    refused(compare("runs/begun"), "its training failed (see run.json): train it again with other settings")
    (tmp_path / "runs/begun/run.json").unlink()
    for name in ("one", "two"):
        no_evaluation(tmp_path / "runs" / name)
    refused(compare("runs"), "runs/begun: has no evaluation of the test split; finish it with")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove("config.yaml"), "two: has no config.yaml; expected a run directory written by `songrank train`, or"),
        (put("config.yaml", "a: [1\nb: 2"), "two/config.yaml, line 2: is not YAML ("),
        (put("config.yaml", "when: 2020-99-99"), "two/config.yaml: is not YAML (month must be in 1..12)"),
        (put("config.yaml", "a: !!python/object:os.system {}"), "two/config.yaml, line 1: is not YAML (could not"),
        (put("config.yaml", "- 1"), "two/config.yaml: is not a mapping; expected keys such as"),
        (put("config.yaml", "loss: song"), "two/config.yaml: has no model; expected a mapping"),
        (put("config.yaml", "{model: {name: x}, loss: song}"), "loss is 'song'; expected a mapping"),
        (put("config.yaml", "{model: {name: x}, loss: {k: 1}}"), "has no loss.name; expected a string"),
        (put("config.yaml", "{model: {name: x}, loss: {name: y}, seed: yes}"), "seed is True; expected an integer"),
        (no_evaluation, "two: has no evaluation of the test split; finish it with `songrank train --resume two`"),
        (put("evaluation/test.json", "{"), "two/evaluation/test.json: is not valid JSON ("),
        (put("evaluation/test.json", "[]"), "two/evaluation/test.json: is not a JSON object; leave this run out"),
        (put("evaluation/test.json", "{}"), "two/evaluation/test.json: has no metrics; expected a mapping"),
        (remove("evaluation/test.safetensors"), "two/evaluation/test.safetensors: is missing; leave this run out"),
        (put("evaluation/test.safetensors", "x"), "two/evaluation/test.safetensors: is damaged ("),
        (save(), "two/evaluation/test.safetensors: has no values of ndcg@10; leave this run out"),
        (save(**{"ndcg@10": np.zeros((6, 1))}), "ndcg@10 has shape [6, 1], but the evaluation has 6 queries"),
        (save(**{"ndcg@10": np.full(6, np.inf)}), "ndcg@10 has infinite values"),
        (save(**{"ndcg@10": np.zeros(6)}), "ndcg@10 has mean 0, but the evaluation has 0."),
        (zero_run, "two and one have values of ndcg@10 for different queries"),
        (change(queries=7), "ndcg@10 has shape [6], but the evaluation has 7 queries; leave this run out"),
        (change(ties="stable"), "two: was evaluated with ties 'stable', but one with 'pessimistic'; compare"),
        (change(gain="linear"), "two: was evaluated with gain 'linear', but one with 'exp2'"),
        (change(empty_policy="one"), "two: was evaluated with empty_policy 'one', but one with 'skip'"),
        (change(candidates=100), "two: was evaluated with candidates 100, but one with 'all'"),
        (change(lists_sha256=None), "two/evaluation/test.json: lists_sha256 is None; expected a string"),
        (
            change(lists_sha256="f" * 64),
            "song has no run on the data set of two ('data/a', sha256 ffffffffffff…); compare",
        ),
        (change(metrics={}), "the runs have no metric in common"),
    ],
)
def test_a_run_that_cannot_be_used_is_one_line_and_exit_code_2(compare, write, tmp_path, damage, message):
    write("one")
    write("two", "bce")
    damage(tmp_path / "two")
    refused(compare("one", "two"), message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "nowhere: does not exist; expected a run directory"),
        (["one/config.yaml"], "one/config.yaml: is not a directory; expected a run directory"),
        (["x" * 300], "does not exist"),
        (["one", "two", "three"], "two and three are both bce with seed 0 on the same data; leave one out"),
        (["one", "two", "--metric", "mrr"], "one: has no 'mrr'; it has ndcg@10"),
        (["one", "two", "--split", "validation"], "one: has no evaluation of the validation split; it has test"),
        (
            ["one", "two", "--baseline", "sing"],
            "baseline 'sing' is neither a label nor one of the runs; the labels are",
        ),
        (["one", "two", "--baseline", "."], "baseline '.' matches several methods; the labels are 'song', 'bce'"),
        (["one", "two", "--level", "95"], "level is 95; expected a number above 0 and at most 0.999"),
        (["one", "--json", "--markdown"], "--json and --markdown exclude each other; choose one"),
        ([], "Missing argument"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(compare, write, words, message):
    write("one")
    write("two", "bce")
    write("three", "bce")
    refused(compare(*words), message)


@pytest.fixture
def trained(songrank, tmp_path, monkeypatch):
    """Train the small run of a task below the current folder."""
    monkeypatch.chdir(tmp_path)

    def train(task="recommendation"):
        words, path = recipe(tmp_path, task)
        assert songrank(*words).returncode == 0
        assert songrank("train", path, "-o", "run", "-q").returncode == 0

    return train


def test_baseline_models_are_methods_with_paired_differences(compare, trained):
    trained()
    done = compare(
        "run", "--baseline-model", "ease", "--baseline-model", "popularity", "--baseline-model", "ease", "--json"
    )
    assert done.stderr == ""
    result = json.loads(done.stdout)
    assert (result["baseline"], [method["label"] for method in result["methods"]]) == (
        "song",
        ["song", "ease", "popularity"],
    )
    own = load_file("run/evaluation/test.safetensors")
    for method in result["methods"][1:]:
        name = method["label"]
        expected = measure(name, open_dataset("data"), select="ndcg@10", metrics=["ndcg@5", "mrr"])
        assert {metric: found["mean"] for metric, found in method["metrics"].items()} == expected.evaluation.values
        difference = paired_difference(expected.evaluation.per_query["ndcg@5"], torch.tensor(own["ndcg@5"]))
        found = method["differences"]["ndcg@5"]
        assert (found["mean"], found["low"], found["high"]) == (difference.mean, difference.low, difference.high)
        assert found["wins"] + found["ties"] + found["losses"] == 40
        assert (method["seeds"], method["runs"]) == ([0], [])
        assert method["baseline_model"]["inputs"] == ["train", "validation"]
        (chosen,) = method["baseline_model"]["chosen"]
        assert (chosen["options"], chosen["validation"]) == (expected.options, expected.validation)


def test_tables_have_baseline_models_and_their_histories(compare, trained):
    trained()
    Path("run").rename("one")
    shutil.copytree("one", "two")
    file = Path("two/config.yaml")
    file.write_text(file.read_text().replace("seed: 0", "seed: 1").rpartition("# sha256")[0])
    shown = compare(
        "one", "two", "--baseline-model", "ease", "--metric", "mrr", "--baseline", "ease"
    ).stdout.splitlines()
    assert [line.split()[:2] for line in shown[:3]] == [["method", "seeds"], ["song", "2"], ["ease", "1"]]
    assert "difference to ease" in shown[4]
    _, baselines, intervals = shown[-3:]
    assert baselines.startswith(
        "baseline models: fitted to the training split; user histories: training and validation items; "
        "ease: regularisation "
    )
    assert " (validation ndcg@10 0." in baselines
    assert "over users and seeds; not adjusted" in intervals
    assert "one seed," not in intervals
    on_validation = compare("one", "--baseline-model", "popularity", "--split", "validation", "--markdown").stdout
    assert "| popularity | 1 |" in on_validation
    assert "user histories: training items\n" in on_validation


def test_baseline_models_are_measured_on_every_data_set_of_the_runs(compare, trained, songrank):
    trained()
    words = ["movielens-1m", "source/ratings.dat", "-o", "other", "--holdout", "2", "-q"]
    assert songrank("data", "prepare", *words).returncode == 0
    assert songrank("train", "recipe.yaml", "data=other", "-o", "second", "-q").returncode == 0
    result = json.loads(compare("run", "second", "--baseline-model", "popularity", "--metric", "mrr", "--json").stdout)
    values = [
        measure("popularity", open_dataset(data), metrics="mrr").evaluation.values["mrr"] for data in ("data", "other")
    ]
    assert result["folds"] == 2
    assert result["methods"][1]["metrics"]["mrr"]["mean"] == pytest.approx(np.mean(values))
    assert [Path(one["data"]).name for one in result["methods"][1]["baseline_model"]["chosen"]] == ["data", "other"]


def test_a_baseline_model_finds_a_moved_data_set(compare, trained):
    trained()
    before = compare("run", "--baseline-model", "popularity").stdout
    Path("data").rename("moved")
    fix = "is not a prepared data set; pass the current path of the data set of run with --data, or leave out"
    refused(compare("run", "--baseline-model", "popularity"), fix)
    assert compare("run", "--baseline-model", "popularity", "--data", "moved").stdout == before


def test_baseline_models_of_other_lists_are_rejected(compare, trained, songrank):
    trained()
    words = ["movielens-1m", "source/ratings.dat", "-o", "data", "--overwrite", "--holdout", "2", "-q"]
    assert songrank("data", "prepare", *words).returncode == 0
    message = "data: does not contain the lists on which run was evaluated; pass the data set of the evaluation"
    refused(compare("run", "--baseline-model", "popularity"), message)


@pytest.mark.parametrize("task", ["search", "labelling"])
def test_baseline_models_are_for_recommendation(compare, trained, task):
    trained(task)
    message = f"data: is a {task} data set; baseline models are for recommendation; leave them out"
    refused(compare("run", "--baseline-model", "ease"), message)


def test_mistakes_about_baseline_models_are_one_line_before_anything_is_fitted(compare, write, monkeypatch):
    write("one")
    refused(
        compare("one", "--baseline-model", "easy"), "baseline model is 'easy'; expected one of ease, ials, popularity"
    )
    refused(
        compare("one", "--baseline-model", "ease", "--baseline", "sing"), "baseline 'sing' is neither a label nor one"
    )
    refused(compare("one", "--baseline-model", "ease", "--metric", "mrr"), "one: has no 'mrr'; it has ndcg@10")
    refused(compare("one", "--baseline-model", "ease"), "data/a: is not a prepared data set; pass the current path")
    monkeypatch.setitem(sys.modules, "implicit.cpu.als", None)
    refused(compare("one", "--baseline-model", "ials"), 'not installed: pip install "songrank[baselines]"')


def test_the_former_option_gives_a_hint(compare, trained):
    trained()
    done = compare("run", "--yardstick", "popularity", "--json")
    assert json.loads(done.stdout) == json.loads(compare("run", "--baseline-model", "popularity", "--json").stdout)
    assert done.stderr == "warning: --yardstick is now --baseline-model\n"
