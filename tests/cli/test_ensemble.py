"""Runs of several seeds as one: what it says, that every command takes it, and what cannot be put together."""

import json
import shutil

import pytest
import torch

from songrank.data import open_dataset
from songrank.io.locks import alone
from songrank.metrics import evaluate_catalogue, evaluate_lists
from songrank.models import Ensemble
from songrank.serving import open_model
from songrank.training.trainer.history_adapters import make_adapter
from tests.cli.small_sets import recipe

SEEDS = (0, 1, 5)


@pytest.fixture
def trained(songrank, tmp_path, request):
    """Three runs of a task, and the words that name them."""
    words, path = recipe(tmp_path, getattr(request, "param", "recommendation"))
    assert songrank(*words).returncode == 0
    for seed in SEEDS:
        done = songrank("train", path, f"seed={seed}", "-o", tmp_path / "runs" / str(seed), "-q", "device=cpu")
        assert done.returncode == 0, done.stderr
    return [tmp_path / "runs" / str(seed) for seed in SEEDS]


def evaluated(members, dataset, split):
    """The metrics of the members' mean scores, by hand."""
    models = [open_model(run).model for run in members]
    if dataset.form == "list":
        part = dataset[split]
        scores = torch.cat(
            [
                sum(model(part.features[a:b][None].float(), torch.ones(1, b - a, dtype=torch.bool)) for model in models)
                for a, b in zip(part.offsets[:-1].tolist(), part.offsets[1:].tolist(), strict=True)
            ],
            dim=1,
        )
        return evaluate_lists(scores[0].detach() / 3, part.label, lengths=part.lengths, metrics=["ndcg@5", "mrr"])
    feed = make_adapter(dataset)
    mean = lambda query: sum(model.score_all(feed.queries(split, query)) for model in models) / 3  # noqa: E731
    with torch.no_grad():
        return evaluate_catalogue(mean, dataset.relevance(split), metrics=["ndcg@5", "mrr"])


@pytest.mark.parametrize("trained", ["recommendation", "search", "labelling"], indirect=True)
def test_it_is_the_mean_of_its_members_in_every_command(songrank, trained, tmp_path):
    whole = tmp_path / "whole"
    done = songrank("ensemble", *trained, "-o", whole, "--json", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    dataset = open_dataset(tmp_path / "data")
    for split in ("validation", "test"):
        wanted = evaluated(trained, dataset, split).values
        assert json.loads(done.stdout)[split] == pytest.approx(wanted, rel=1e-4)
        again = songrank("evaluate", whole, "--split", split, "--json", "--device", "cpu")
        assert json.loads(again.stdout)["metrics"] == pytest.approx(wanted, rel=1e-4)
    told = json.loads(songrank("compare", tmp_path / "runs", whole, "--json").stdout)
    assert [method["label"] for method in told["methods"]] == ["song", "song members=3"]
    assert songrank("report", whole).returncode == 0
    page = (whole / "report.html").read_text()
    assert "members is 3" not in page
    assert "ensemble of 3 runs" in page
    assert isinstance(open_model(whole).model, Ensemble)
    done = songrank("export", whole, "-o", tmp_path / "whole.pt2", "--format", "torch")
    assert done.returncode == 0, done.stderr
    assert songrank("recommend", whole, "-o", tmp_path / "best.csv").returncode == (
        0 if dataset.task == "recommendation" else 2
    )


def test_a_folder_of_runs_stands_for_them_and_a_run_that_is_there_stays(songrank, trained, tmp_path):
    assert songrank("ensemble", tmp_path / "runs", "-o", tmp_path / "whole").returncode == 0
    assert open_model(tmp_path / "whole").info["members"] == 3
    again = songrank("ensemble", tmp_path / "runs", "-o", tmp_path / "runs" / "all")
    assert [line.split()[0] for line in again.stdout.splitlines()[1:3]] == ["validation", "test"]
    assert songrank("ensemble", tmp_path / "runs", "-o", tmp_path / "runs" / "all", "--overwrite").returncode == 0
    again = songrank("ensemble", *trained[:2], "-o", tmp_path / "whole")
    assert again.returncode == 2
    assert (
        "already contains a run; pass --overwrite to replace it, or choose another directory with -o\n" in again.stderr
    )
    assert songrank("ensemble", *trained[:2], "-o", tmp_path / "whole", "--overwrite").returncode == 0
    assert open_model(tmp_path / "whole").info["members"] == 2


def test_what_cannot_be_put_together_is_said_in_one_line(songrank, trained, tmp_path):
    shutil.copytree(trained[1], tmp_path / "copy")
    shutil.copytree(trained[2], tmp_path / "unfinished")
    (tmp_path / "unfinished" / "model.json").unlink()
    assert songrank("ensemble", *trained, "-o", tmp_path / "whole").returncode == 0
    for words, message in [
        ([trained[0]], "an ensemble needs at least two runs of one recipe with different seeds; got 1"),
        (
            [trained[1], trained[0], tmp_path / "copy"],
            f"{tmp_path / 'copy'}: has the same seed as {trained[1]}, 1; expect",
        ),
        ([trained[0], tmp_path / "unfinished"], "has no model yet; finish it with `songrank train --resume"),
        ([tmp_path / "whole", tmp_path / "whole2"], "does not exist"),
        ([trained[0], tmp_path / "whole"], f"{tmp_path / 'whole'}: is an ensemble; pass the runs that it combines"),
        ([*trained, "--device", "gpu"], "device is 'gpu'; expected auto, cpu, cuda or cuda:0"),
    ]:
        done = songrank("ensemble", *words, "-o", tmp_path / "no")
        assert done.returncode == 2
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
        assert not (tmp_path / "no").exists()
    done = songrank("train", tmp_path / "recipe.yaml", "members=3", "-o", tmp_path / "no")
    assert done.returncode == 2
    assert "members is 3; expected none: only `songrank ensemble` creates such runs" in done.stderr


def test_runs_of_several_recipes_make_a_blend(songrank, trained, tmp_path):
    other = tmp_path / "other"
    assert songrank("train", tmp_path / "recipe.yaml", "loss=bce", "seed=9", "-o", other, "-q").returncode == 0
    done = songrank("ensemble", trained[0], other, "-o", tmp_path / "whole", "--weights", "0.6,0.4", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    first, second = (line.split()[:2] for line in done.stdout.splitlines()[1:3])
    assert (first, second) == ([str(trained[0]), "0.60"], [str(other), "0.40"])
    assert open_model(tmp_path / "whole").model.weights == (0.6, 0.4)


def test_weights_make_a_blend_of_seeds(songrank, trained, tmp_path):
    words = ["--weights", "0.2,0.3,0.5", "--json", "--device", "cpu"]
    done = songrank("ensemble", *trained, "-o", tmp_path / "whole", *words)
    told = json.loads(done.stdout)["blend"]["members"]
    assert [(row["run"], row["weight"]) for row in told] == [
        (str(run), weight) for run, weight in zip(trained, (0.2, 0.3, 0.5), strict=True)
    ]
    assert not isinstance(open_model(tmp_path / "whole").model, Ensemble)


def test_members_are_not_written_over_nor_runs_that_are_being_trained(songrank, trained, tmp_path):
    before = {file: file.read_bytes() for file in trained[0].rglob("*") if file.is_file()}
    done = songrank("ensemble", *trained, "-o", trained[0], "--overwrite")
    assert done.returncode == 2
    assert done.stderr == f"error: {trained[0]}: is one of the runs; choose another place with -o\n"
    with alone(trained[0], "trained"):
        done = songrank("ensemble", *trained[1:], "-o", trained[0], "--overwrite")
        assert done.returncode == 2
        assert "is being trained by another process" in done.stderr
    assert {file: file.read_bytes() for file in trained[0].rglob("*") if file.is_file()} == before


def test_models_of_other_ids_are_not_joined(songrank, trained, tmp_path):
    """Without run.json nothing else tells that a run was trained on other films of the same number."""
    lines = (tmp_path / "source" / "ratings.dat").read_text().splitlines()
    (tmp_path / "other.dat").write_text("".join(f"{line.replace('::', '::9', 1)}\n" for line in lines))
    assert (
        songrank("data", "prepare", "movielens-1m", tmp_path / "other.dat", "-o", tmp_path / "d", "-q").returncode == 0
    )
    words = [f"data={tmp_path / 'd'}", "seed=7", "device=cpu"]
    assert songrank("train", tmp_path / "recipe.yaml", *words, "-o", tmp_path / "other", "-q").returncode == 0
    (tmp_path / "other" / "run.json").unlink()
    done = songrank("ensemble", trained[0], tmp_path / "other", "-o", tmp_path / "whole")
    assert done.returncode == 2
    assert "model or ids differ from" in done.stderr


def test_a_number_of_members_that_is_none_is_refused(songrank, trained, tmp_path):
    assert songrank("ensemble", *trained, "-o", tmp_path / "whole").returncode == 0
    file = tmp_path / "whole" / "model.json"
    told = json.loads(file.read_text())
    for members in (0, 7, "3", 10**9, True):
        file.write_text(json.dumps({**told, "members": members}))
        done = songrank("evaluate", tmp_path / "whole")
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
