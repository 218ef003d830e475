"""Runs of models with cosine scores and of LightGCN: every loss and optimiser, resume, model folder, answers."""

import json
import warnings

import pytest
import torch
from safetensors.torch import load_file

from songrank.analysis.ensemble import make_ensemble
from songrank.core.errors import DataError, UserError
from songrank.data import open_dataset, prepare
from songrank.losses.registry import LOSSES
from songrank.serving.export import export_model
from songrank.serving.open import open_model
from songrank.serving.recommendations import recommend, score_users
from songrank.training.build import make_trainer
from songrank.training.config.recipe_files import load_recipe
from songrank.training.run import Run
from tests.models.small_folders import change, refused

USERS, ITEMS, KINDS = 48, 30, 3
COSINE = ["model.scoring=cosine", "model.temperature=0.2"]
MODELS = {
    "factors": ("recommendation", ["model=matrix-factorisation", *COSINE]),
    "factors, learned": ("recommendation", ["model=matrix-factorisation", *COSINE, "model.learn_temperature=true"]),
    "towers": ("recommendation", ["model=two-tower", *COSINE, "model.learn_temperature=false"]),
    "sequence": ("sequences", ["model.blocks=1", "model.heads=1", "model.length=6", *COSINE]),
    "history": ("histories", ["model.length=6", *COSINE, "model.learn_temperature=true"]),
    "lightgcn": ("recommendation", ["model=lightgcn"]),
    "lightgcn, cosine": ("recommendation", ["model=lightgcn", "model.layers=3", *COSINE]),
}
WITH_ALL = ("factors", "sequence", "lightgcn, cosine")
SMALL = ["model.dim=8", "batch.queries=16", "device=cpu"]
every_model = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Users with 8 items of one of three kinds."""
    place = tmp_path_factory.mktemp("data") / "set"
    generator, rows = torch.Generator().manual_seed(0), []
    for user in range(USERS):
        own = torch.arange(user % KINDS, ITEMS, KINDS)
        rows += [(f"u{user:02}", int(item)) for item in own[torch.randperm(len(own), generator=generator)[:8]]]
    prepare("interactions", dict(zip(("user", "item"), zip(*rows, strict=True), strict=True)), place)
    return place


def recipe(data, name, *changes):
    shipped, model = MODELS[name]
    few = [] if shipped == "sequences" else ["batch.relevant=3"]
    return load_recipe(shipped, [f"data={data}", *model, *SMALL, *few, "batch.irrelevant=10", *changes])


FAST = ["warm_up.learning_rate=0.05", "warm_up.epochs=15", "fine_tuning.learning_rate=0.02", "fine_tuning.epochs=4"]


@every_model
def test_it_learns_is_saved_and_answers(data, name, tmp_path):
    slow = ["warm_up.learning_rate=0.01", "warm_up.epochs=30"] if name == "sequence" else []
    run = Run.begin(recipe(data, name, *FAST, *slow, "fine_tuning.ema_decay=0.9"), tmp_path / "run")
    assert run.finish()
    assert run.results["test"].values["ndcg@10"] > 0.4  # by chance about .2
    folder = open_model(tmp_path / "run")
    scores = score_users(folder, torch.arange(USERS))
    with torch.no_grad():
        torch.testing.assert_close(scores, run.trainer.model.score_all(folder.queries(torch.arange(USERS))))
    best = torch.cat([batch.item for batch in recommend(folder, list(folder.query_ids), k=2)]).view(-1, 2)
    unseen = scores.clone()
    for user in range(USERS):
        unseen[user, folder.seen["item"][folder.seen.offsets[user] : folder.seen.offsets[user + 1]].long()] = -torch.inf
    assert torch.equal(best.sort(1).values, unseen.topk(2).indices.sort(1).values)
    if "cosine" in recipe(data, name).model.values() and "learned" not in name and name != "history":
        assert scores.abs().max() <= 5.0 + 1e-5
    file = export_model(folder.model, folder.inputs, folder.info["sizes"], tmp_path / "model.pt2", format="torch")
    given = folder.queries(torch.arange(5))
    torch.testing.assert_close(torch.export.load(file).module()(given), scores[:5], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "loss"),
    # Every loss on one model of each kind of input, and every model with one loss of each kind.
    [
        (name, loss)
        for name in MODELS
        for loss in LOSSES
        if name in ("factors", "sequence", "lightgcn, cosine")
        or loss in ("song", "softmax", "lambdarank", "faster-song")
    ],
)
def test_every_loss_trains_it(data, name, loss):
    options = ["loss.k=3"] if loss.endswith("k-song") else []
    stage = ["warm_up.epochs=0", "fine_tuning.epochs=2", "validation.every=0"]
    trainer = make_trainer(recipe(data, name, f"loss={loss}", *options, *stage), open_dataset(data))
    before = {key: weight.detach().clone() for key, weight in trainer.model.named_parameters()}
    trainer.run()
    assert all(not torch.equal(weight, before[key]) for key, weight in trainer.model.named_parameters())
    assert all(weight.isfinite().all() for weight in trainer.model.parameters())


@every_model
@pytest.mark.parametrize("loss", ["song", "faster-song"])
def test_a_resumed_run_ends_with_the_same_bits(data, name, loss, tmp_path):
    told = recipe(data, name, f"loss={loss}", "warm_up.epochs=1", "fine_tuning.epochs=3")
    whole = Run.begin(told, tmp_path / "whole")
    whole.finish()
    steps, part = [], Run.begin(told, tmp_path / "part")
    part.tick = lambda: (steps.append(1), part.trainer.stop() if len(steps) == 7 else None)
    assert not part.finish()
    assert Run.resume(tmp_path / "part").finish()
    one, other = (load_file(tmp_path / place / "model.safetensors") for place in ("whole", "part"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "history"])  # embedding_bag has none
def test_one_point_losses_have_forward_derivatives(data, name):
    stage = ["loss=faster-song", "loss.points=1", "warm_up.epochs=0", "fine_tuning.epochs=1", "validation.every=0"]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*no forward-mode derivative")
        make_trainer(recipe(data, name, *stage), open_dataset(data)).run()


def test_a_learned_temperature_has_no_weight_decay(data):
    told = recipe(data, "factors, learned", "fine_tuning.weight_decay=0.1")
    trainer = make_trainer(told, open_dataset(data))
    groups = trainer.stages[-1].make_optimiser(trainer.model, "plain").param_groups
    decay = {id(weight): group["weight_decay"] for group in groups for weight in group["params"]}
    found = {name: decay[id(weight)] for name, weight in trainer.model.named_parameters()}
    assert found == {"log_temperature": 0.0, "query_factors.weight": 0.1, "item_factors.weight": 0.1}


@pytest.mark.parametrize("name", ["factors", "factors, learned", "towers"])
def test_lazy_adam_updates_rows_of_cosines(data, name, tmp_path):
    lazy = ["warm_up.optimiser=lazy-adam", "fine_tuning.optimiser=lazy-adam", "batch.irrelevant=2", "batch.relevant=1"]
    run = Run.begin(recipe(data, name, *FAST, *lazy, "batch.queries=8"), tmp_path / "run")
    assert run.finish()
    assert run.results["test"].values["ndcg@10"] > 0.4


def test_options_are_in_the_folder_and_members_of_an_ensemble_are_averaged(data, tmp_path):
    for seed in (0, 1):
        Run.begin(
            recipe(data, "lightgcn, cosine", "fine_tuning.epochs=1", f"seed={seed}"), tmp_path / f"{seed}"
        ).finish()
    told = json.loads((tmp_path / "0" / "model.json").read_text())
    assert told["model"]["scoring"] == "cosine"
    assert told["model"]["temperature"] == 0.2
    assert told["sizes"] == {"num_queries": USERS, "num_items": ITEMS, "edges": USERS * 6}
    make_ensemble([tmp_path / "0", tmp_path / "1"], tmp_path / "both")
    user = torch.arange(USERS)
    parts = [score_users(open_model(tmp_path / place), user) for place in ("0", "1", "both")]
    torch.testing.assert_close(parts[2], (parts[0] + parts[1]) / 2)


def test_the_graph_has_the_training_pairs_only(data):
    dataset = open_dataset(data)
    model = make_trainer(recipe(data, "lightgcn"), dataset).model
    pairs = dataset["train"].unique_pairs()
    edges = {(query, item) for query, item in zip(pairs[0].tolist(), pairs[1].tolist(), strict=True)}
    offsets, neighbours = model.offsets.tolist(), model.neighbours.tolist()
    found = {(q, x - USERS) for q in range(USERS) for x in neighbours[offsets[q] : offsets[q + 1]]}
    assert found == edges
    assert len(neighbours) == 2 * len(edges)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["fine_tuning.optimiser=lazy-adam"], "lazy-adam, but model 'lightgcn' reads all rows of its tables; use adam"),
        (["fine_tuning.item_decay_power=1", "fine_tuning.weight_decay=0.1"], "'lightgcn' reads all rows of its tables"),
    ],
)
def test_options_that_read_single_rows_are_rejected_for_a_graph(data, changes, message):
    with pytest.raises(UserError, match=message):
        make_trainer(recipe(data, "lightgcn", *changes), open_dataset(data))


def test_a_damaged_graph_in_a_folder_is_rejected(data, tmp_path):
    Run.begin(recipe(data, "lightgcn", "warm_up.epochs=1", "fine_tuning.epochs=0"), tmp_path / "run").finish()
    change(tmp_path / "run", {("model.safetensors", "neighbours"): lambda old: old + 1000})
    refused(tmp_path / "run", "tables are inconsistent with model.json")
    change(tmp_path / "run", sizes={"edges": -1})
    with pytest.raises(DataError, match="describes an invalid model"):
        open_model(tmp_path / "run")
    change(tmp_path / "run", sizes={"edges": 5})
    refused(tmp_path / "run", "weights differ from model.json")
