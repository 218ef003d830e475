"""Recipes with a model of histories: what losses are told, what a step may take, and a run that is killed."""

import json
import os
import signal
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from songrank.analysis.evaluate import evaluate_run
from songrank.core.errors import UserError
from songrank.data import open_dataset, prepare
from songrank.losses.registry import LOSSES
from songrank.models import SequenceModel
from songrank.serving import open_model, recommend
from songrank.training.build import make_trainer
from songrank.training.config.recipe import Recipe
from songrank.training.config.recipe_files import load_recipe
from songrank.training.run import Run
from songrank.training.trainer import history_adapters
from songrank.training.trainer.history_adapters import make_adapter
from songrank.training.warm_start import WarmStart

MODEL = {"name": "sequence", "dim": 16, "blocks": 1, "heads": 1, "length": 6, "dropout": 0.1}
ITEMS = 15


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """40 users who go through 15 items in a circle, 5 to 13 steps each, from starts of their own."""
    place = tmp_path_factory.mktemp("data") / "set"
    rows = [(f"u{user:02}", (user * 7 + step) % ITEMS, step) for user in range(40) for step in range(5 + user % 9)]
    prepare("interactions", dict(zip(("user", "item", "time"), zip(*rows, strict=True), strict=True)), place)
    return place


def recipe(data, **changes):
    values = {
        "data": str(data),
        "model": MODEL,
        "batch": {"queries": 16, "irrelevant": "all"},
        "warm_up": {"epochs": 20, "learning_rate": 0.01, "loss": "softmax"},
        "fine_tuning": {"epochs": 4, "learning_rate": 1e-3, "reset_head": False},
        "loss": {"name": "song", "gamma": 0.3},
        "validation": {"metric": "ndcg@5", "every": 4},
        "evaluation": {"metrics": ["ndcg@5"]},
        "device": "cpu",
    }
    return Recipe.read({**values, **changes})


def test_the_shipped_recipe_learns_what_follows_what(data, tmp_path):
    small = ["model.dim=16", "model.blocks=1", "model.length=6", "batch.queries=16", "warm_up.learning_rate=0.01"]
    short = ["warm_up.epochs=20", "fine_tuning.epochs=4", "device=cpu"]
    run = Run.begin(load_recipe("sequences", [f"data={data}", *small, *short]), tmp_path / "run")
    assert run.finish()
    found = run.results["test"].values["ndcg@10"]
    assert found > 0.9
    assert evaluate_run(tmp_path / "run", device="cpu").values["ndcg@10"] == found
    told = json.loads((tmp_path / "run" / "model.json").read_text())
    assert (told["inputs"], told["task"], told["sizes"]) == ("histories", "recommendation", {"num_items": ITEMS})


def test_a_run_with_all_options_resumes_opens_and_answers(data, tmp_path):
    options = {"positions": "end", "relative": True, "time_bias": True, "gates": True, "embedding_norm": True}
    told = recipe(
        data,
        model={**MODEL, **options, "embedding_dropout": 0.2, "scoring": "cosine", "temperature": 0.1},
        batch={"queries": 16, "irrelevant": "all", "windows": "prefix"},
        warm_up={"epochs": 8, "learning_rate": 0.01, "loss": "softmax"},
    )
    run = Run.begin(told, tmp_path / "run")
    assert run.finish()
    assert run.results["test"].values["ndcg@5"] > 0.8
    assert evaluate_run(tmp_path / "run", device="cpu").values == run.results["test"].values
    folder = open_model(tmp_path / "run")
    assert folder.model.reads_times
    (batch,) = recommend(folder, ["u00", "u07"], 3)
    assert batch.known.all()
    assert batch.num_users == 2


@pytest.mark.parametrize("precision", ["tf32", "bfloat16"])
def test_biases_of_attention_fit_every_precision(data, precision):
    model = {**MODEL, "relative": True, "time_bias": True, "gates": True}
    short = {"warm_up": {"epochs": 0}, "fine_tuning": {"epochs": 1, "learning_rate": 1e-3}}
    trainer = make_trainer(recipe(data, model=model, precision=precision, **short), open_dataset(data))
    trainer.run()
    assert all(weight.isfinite().all() for weight in trainer.model.parameters())
    assert bool((trainer.model.passed[0].weight != 0).any())


def test_any_recommendation_recipe_takes_it(data, tmp_path):
    changes = [f"data={data}", "model=sequence", "model.dim=8", "model.length=5", "warm_up.epochs=1", "device=cpu"]
    run = Run.begin(load_recipe("recommendation", [*changes, "fine_tuning.epochs=1"]), tmp_path / "run")
    assert run.finish()
    assert run.trainer.stages[0].sampler.columns == ITEMS  # 300 are more than there are


def test_losses_are_told_of_entries_and_remember_those_that_were_visited(data):
    trainer = make_trainer(
        recipe(data, warm_up={"epochs": 0}, loss={"name": "faster-k-song", "k": 3}), open_dataset(data)
    )
    part = open_dataset(data)["train"]
    counts = part.offsets.diff()
    loss, visited = trainer.stages[0].loss, counts.clamp(max=MODEL["length"])
    assert trainer.adapter.relevance.num_queries == trainer.adapter.relevance.num_pairs == part.item.shape[0]
    assert loss.queries_per_batch == 16 * MODEL["length"]
    assert loss.query_share == 16 / counts.shape[0]  # of users, and with them of all entries that are visited
    assert int(visited.sum()) < counts.shape[0] * MODEL["length"]
    trainer.run()
    last = torch.cat([torch.arange(n) >= n - MODEL["length"] for n in counts.tolist()])
    for name in (*loss.by_pair, *loss.by_query):
        held = loss.table(name).read()
        assert torch.equal(held.isfinite(), last), name


@pytest.mark.parametrize(
    "batch",
    [
        {"irrelevant": "all"},
        {"irrelevant": 6, "following": 3},
        {"windows": "random", "irrelevant": "all"},
        {"windows": "prefix", "irrelevant": "all"},
    ],
)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_trains_it(data, loss, batch):
    options = {"k": 3} if loss.endswith("k-song") else {}
    stage = {"epochs": 2, "learning_rate": 1e-3}
    told = {"batch": {"queries": 16, **batch}, "loss": {"name": loss, **options}}
    trainer = make_trainer(recipe(data, warm_up={"epochs": 0}, fine_tuning=stage, **told), open_dataset(data))
    before = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
    trainer.run()
    assert not torch.equal(before["item.weight"], trainer.model.item.weight)
    assert all(weight.isfinite().all() for weight in trainer.model.parameters())


def test_random_windows_may_come_upon_any_entry(data):
    batch = {"queries": 16, "irrelevant": "all", "windows": "random"}
    told = recipe(data, warm_up={"epochs": 0}, loss={"name": "faster-song"}, batch=batch)
    counts = open_dataset(data)["train"].offsets.diff()
    visited, users = counts.clamp(max=MODEL["length"]).sum(), counts.shape[0]
    trainer = make_trainer(told, open_dataset(data))
    assert trainer.stages[0].loss.query_share == pytest.approx(16 / users * float(visited / counts.sum()), rel=1e-2)
    sampler, times = trainer.stages[0].sampler, torch.zeros(int(counts.sum()))
    for _ in range(40):
        for slate in sampler:
            times[slate.query] += 1
    assert float(times.mean()) / (40 * users / 16) == pytest.approx(trainer.stages[0].loss.query_share, rel=1e-2)


@pytest.mark.parametrize("windows", ["sliding", "prefix"])
def test_successive_windows_visit_each_entry_once_and_losses_are_told(data, windows):
    batch = {"queries": 16, "irrelevant": "all", "windows": windows}
    told = recipe(data, warm_up={"epochs": 0}, loss={"name": "faster-song"}, batch=batch)
    trainer = make_trainer(told, open_dataset(data))
    counts = open_dataset(data)["train"].offsets.diff()
    stride = MODEL["length"] if windows == "sliding" else 1
    number = int(((counts + stride - 1) // stride).sum())
    sampler, loss = trainer.stages[0].sampler, trainer.stages[0].loss
    assert sampler.num_queries == number
    assert (loss.queries_per_batch, loss.query_share) == (16 * stride, pytest.approx(16 / number))
    trainer.run()
    assert all(loss.table(name).read().isfinite().all() for name in (*loss.by_pair, *loss.by_query))


def test_a_model_of_another_kind_leaves_behind_what_it_cannot_read(data):
    told = load_recipe("sequences", [f"data={data}", "model=neumf", "model.dim=4", "device=cpu", "batch.irrelevant=4"])
    assert (told.batch.windows, told.batch.queries) == (None, "auto")
    assert make_trainer(told, open_dataset(data)).model is not None


@pytest.mark.parametrize("windows", ["last", "sliding", "prefix"])
@pytest.mark.parametrize("following", [1, 3])
def test_what_the_memory_is_compared_with_is_what_it_estimates(data, following, windows):
    """The report draws whole lists from the feed's relevance: with γ = 1 and still weights, memory and truth agree."""
    compare_memory = pytest.importorskip("songrank.analysis.report.remembered").compare_memory
    still = {"epochs": 1, "learning_rate": 1e-30, "optimiser": "sgd"}
    told = recipe(
        data,
        model={**MODEL, "dropout": 0.0},
        batch={"queries": 16, "irrelevant": "all", "following": following, "windows": windows},
        warm_up={"epochs": 0},
        fine_tuning=still,
        loss={"name": "song", "gamma": 1.0},
    )
    trainer = make_trainer(told, open_dataset(data))
    trainer.run()
    (found,) = compare_memory(trainer.stages[-1].loss, trainer.model, trainer.adapter, queries=10**6)
    counts = open_dataset(data)["train"].offsets.diff().tolist()
    most = MODEL["length"] if windows == "last" else max(counts)
    left = [entries for n in counts for entries in range(1, min(n, most) + 1)]  # of a history, at each entry
    visited = sum(min(entries, following) for entries in left)
    assert len(found.remembered) == visited
    assert found.remembered == pytest.approx(found.exact, rel=1e-4)


A_USER = 4 * MODEL["length"] * ITEMS  # bytes of the scores of the longest history


@pytest.mark.parametrize("irrelevant", ["all", 8])
@pytest.mark.parametrize("loss", [loss for loss in LOSSES if not loss.startswith(("faster", "gumbel"))])
def test_a_step_in_parts_is_the_step(data, monkeypatch, loss, irrelevant):
    """Some users at a time, in batches of 16 and 8: weights, memory and history are those of the whole."""
    dataset = open_dataset(data)
    told = recipe(
        data,
        model={**MODEL, "dropout": 0.0},
        batch={"queries": 16, "irrelevant": irrelevant},
        warm_up={"epochs": 0},
        fine_tuning={"epochs": 2, "learning_rate": 1e-3, "optimiser": "sgd", "clip": 0.5},
        loss={"name": loss, **({"k": 3} if loss == "k-song" else {})},
    )
    whole = make_trainer(told, dataset)
    columns = ITEMS if irrelevant == "all" else 9
    most = 6 * 4 * MODEL["length"] * columns * (columns if loss in ("neural-ndcg", "pirank") else 1) - 1  # 35 rows
    monkeypatch.setattr(history_adapters, "_SLATE_BYTES", most)
    parts = make_trainer(told, dataset)
    stage = parts.stages[0]
    assert (whole.stages[0].at_once, stage.at_once) == (None, 35)
    drawn, rows = [], stage.sampler._rows
    monkeypatch.setattr(stage.sampler, "_rows", lambda *some: drawn.append(rows(*some)) or drawn[-1])
    whole.run()
    parts.run()
    assert max(slate.label.numel() * 4 for slate in drawn) <= most
    assert len(drawn) > 2 * 3  # parts, not batches
    assert max(int(slate.count.sum()) for slate in drawn) <= stage.at_once  # items that the model reads
    for name, weight in whole.model.state_dict().items():
        torch.testing.assert_close(parts.model.state_dict()[name], weight, rtol=1e-4, atol=1e-6, msg=name)
    for name, held in whole.stages[0].loss.state_dict().items():
        torch.testing.assert_close(stage.loss.state_dict()[name], held, rtol=1e-4, atol=1e-6, equal_nan=True, msg=name)
    for one, other in zip(whole.at.history, parts.at.history, strict=True):
        assert other["loss"] == pytest.approx(one["loss"], rel=1e-4)
        assert other["objective"] == pytest.approx(one["objective"], rel=1e-4)
        assert other["step"] == one["step"]


def test_queries_weigh_in_parts_as_in_the_whole(tmp_path, monkeypatch):
    rows = [(f"u{user:02}", (user * 7 + step) % ITEMS, step) for user in range(12) for step in range(4 + user % 5)]
    prepare("interactions", dict(zip(("user", "item", "time"), zip(*rows, strict=True), strict=True)), tmp_path / "set")
    told = recipe(tmp_path / "set", model={**MODEL, "dropout": 0.0}, warm_up={"epochs": 0}, fine_tuning={"epochs": 1})
    weight = torch.linspace(0.0, 3.0, 12)
    found = []
    for most in (10**9, 5 * A_USER):
        monkeypatch.setattr(history_adapters, "_SLATE_BYTES", most)
        trainer = make_trainer(told, open_dataset(tmp_path / "set"))
        trainer.stages[0].sampler.query_weight = weight
        trainer.run()
        found.append(trainer.model.item.weight.detach().clone())
    assert trainer.stages[0].at_once == 5 * MODEL["length"]
    torch.testing.assert_close(found[0], found[1], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("irrelevant", ["all", 7])
def test_a_step_in_parts_is_stopped_and_gone_on_with(data, tmp_path, monkeypatch, irrelevant):
    monkeypatch.setattr(history_adapters, "_SLATE_BYTES", 3 * A_USER // (1 if irrelevant == "all" else 2))
    told = recipe(data, batch={"queries": 16, "irrelevant": irrelevant}, warm_up={"epochs": 3, "loss": "softmax"})
    straight = Run.begin(told, tmp_path / "straight")
    assert straight.trainer.stages[0].at_once is not None
    assert straight.finish()
    ticks = iter([False] * 4 + [True] + [False] * 6 + [True] + [False] * 100)
    stopped = Run.begin(told, tmp_path / "stopped")
    for _ in range(2):
        stopped.trainer.tick = lambda trainer=stopped.trainer: trainer.stop() if next(ticks) else None
        assert not stopped.finish()
        stopped = Run.resume(tmp_path / "stopped")
    assert stopped.finish()
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("straight", "stopped"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_step_that_would_not_fit_is_refused_in_one_line(data, monkeypatch):
    dataset = open_dataset(data)
    monkeypatch.setattr(history_adapters, "_SLATE_BYTES", A_USER)
    assert make_trainer(recipe(data), dataset).stages[0].at_once == MODEL["length"]
    monkeypatch.setattr(history_adapters, "_SLATE_BYTES", A_USER - 1)
    with pytest.raises(UserError, match="6 entries of one user × 15 items exceed 0.00 GB; use batch.irrelevant=13$"):
        make_trainer(recipe(data), dataset)
    make_trainer(recipe(data, batch={"queries": 16, "irrelevant": 13}), dataset)
    monkeypatch.setattr(history_adapters, "_SLATE_BYTES", 4 * MODEL["length"])
    with pytest.raises(UserError, match="6 entries of one user × 15 items exceed 0.00 GB; use a smaller model.len"):
        make_trainer(recipe(data), dataset)


def test_a_loss_that_wants_the_whole_step_says_so(tmp_path):
    users, length = 500, 100
    table = {"user": [u for u in range(users) for _ in range(length + 2)]}
    table["item"] = [(u * 37 + n) % 20_000 for u in range(users) for n in range(length + 2)]
    dataset = prepare("interactions", table, tmp_path / "set")
    told = {"model": {**MODEL, "length": length}, "batch": {"queries": 500, "irrelevant": "all"}}
    assert make_trainer(recipe(tmp_path / "set", **told), dataset).stages[1].at_once == 2**28 // (4 * dataset.num_items)
    with pytest.raises(
        UserError,
        match=r"500 users × 100 entries × \d.* items exceed 0.27 GB, and faster-song needs the whole batch; "
        "use batch.irrelevant=1341 or batch.queries=36$",
    ):
        make_trainer(recipe(tmp_path / "set", **told, loss={"name": "faster-song"}), dataset)
    for advised in ({"queries": 500, "irrelevant": 1341}, {"queries": 36, "irrelevant": "all"}):
        make_trainer(recipe(tmp_path / "set", **{**told, "batch": advised}, loss={"name": "faster-song"}), dataset)


def test_what_has_no_meaning_for_it_is_refused(data, tmp_path):
    dataset = open_dataset(data)
    with pytest.raises(UserError, match=r"batch.length is 5; expected none: for histories, set model.length"):
        make_trainer(recipe(data, batch={"length": 5}), dataset)
    with pytest.raises(
        UserError, match="optimiser is lazy-adam, but model 'sequence' has no embedding tables of ids; use adam"
    ):
        make_trainer(recipe(data, fine_tuning={"epochs": 1, "optimiser": "lazy-adam"}), dataset)
    with pytest.raises(UserError, match="batch.windows is random, but model 'history' ignores order; remove it"):
        make_trainer(recipe(data, model={"name": "history", "dim": 4}, batch={"windows": "random"}), dataset)
    with pytest.raises(UserError, match="batch.following is 2, but model 'history' ignores order; remove it"):
        make_trainer(recipe(data, model={"name": "history", "dim": 4}, batch={"following": 2}), dataset)
    lists = prepare("synthetic", None, tmp_path / "lists", task="search", queries=20)
    with pytest.raises(UserError, match="model.name is 'sequence', but .* contains search data with documents"):
        make_trainer(recipe(data), lists)


def test_a_random_split_is_read_in_order_of_time(tmp_path):
    rows = [(user, (user + step) % 11, step) for user in range(12) for step in range(11)]
    table = dict(zip(("user", "item", "time"), zip(*rows, strict=True), strict=True))
    dataset = prepare("interactions", table, tmp_path / "set", split="random", validation=0.3, test=0.2)
    adapter = make_adapter(dataset, model=SequenceModel(dataset.num_items, dim=8, length=20))
    held = dataset["test"]
    for user, row in enumerate(adapter.queries("test", torch.arange(12)).tolist()):
        gone = held.item[held.offsets[user] : held.offsets[user + 1]].tolist()
        assert [item for item in row if item >= 0] == [
            item for item in ((user + step) % 11 for step in range(11)) if item not in gone
        ]


def test_killed_for_real_and_gone_on_with_it_ends_with_the_same_bits(data, tmp_path, songrank):
    told = ["model=sequence", "model.dim=16", "model.length=6", "model.dropout=0.3", "batch.queries=8"]
    told += [f"data={data}", "batch.irrelevant=8", "warm_up.epochs=4", "fine_tuning.epochs=9", "device=cpu"]
    told += ["loss.gamma=0.3", "validation.every=5"]
    assert songrank("train", "sequences", *told, "-o", tmp_path / "whole", "-q").returncode == 0
    command = [sys.executable, "-m", "songrank.cli", "train", "sequences", *told, "-o", tmp_path / "run", "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    for _ in range(7):  # the second stage is under way
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -9
    assert songrank("train", "--resume", tmp_path / "run", "-q").returncode == 0
    whole, run = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "run"))
    assert whole.keys() == run.keys()
    assert all(torch.equal(value, run[name]) for name, value in whole.items())
    for name in ("metrics.jsonl", "evaluation/test.json", "histories.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


@pytest.mark.parametrize("loss", [{"name": "song"}, {"name": "k-song", "k": 3}])
def test_memory_goes_with_the_entries_when_there_are_more(tmp_path, loss):
    def entries(table, name):
        """A trainer, and what it remembers by user, item and which time it is that they meet."""
        dataset = prepare("interactions", table, tmp_path / name, duplicates="keep")
        trainer = make_trainer(
            recipe(tmp_path / name, warm_up={"epochs": 0}, fine_tuning={"epochs": 1}, loss=loss), dataset
        )
        return trainer, dataset

    def remembered(trainer, dataset):
        part, found, times = dataset["train"], {}, {}
        owner = torch.repeat_interleave(torch.arange(part.num_queries), part.offsets.diff())
        memory = trainer.stages[-1].loss
        for row, (user, item) in enumerate(zip(owner.tolist(), part.item.tolist(), strict=True)):
            pair = dataset.query_ids[user], dataset.item_ids[item]
            times[pair] = times.get(pair, 0) + 1
            for name in (*memory.by_pair, *memory.by_query):
                found[name, *pair, times[pair]] = memory.table(name).read([row]).item()
        return found

    user = [f"u{u}" for u in range(6) for _ in range(7)]
    item = [f"i{(u + n * n) % 5}" for u in range(6) for n in range(7)]  # items come again
    first, data = entries({"user": user, "item": item}, "old")
    first.run()
    before = remembered(first, data)
    past = WarmStart.of(first, data)
    table = {"user": [*user, "a", "a", "a", "u2", "u2"], "item": [*item, "a1", "i3", "a2", "a1", "i0"]}
    second, data = entries(table, "new")
    past.carry_over(second, data)
    after = remembered(second, data)
    kept = {key for key in before if key in after and before[key] == before[key]}
    assert len(kept) > 20
    assert any(key[-1] > 1 for key in kept)
    assert {key: after[key] for key in kept} == {key: before[key] for key in kept}
    assert all(value != value for key, value in after.items() if key not in kept)


@pytest.mark.parametrize("loss", ["neural-ndcg", "pirank"])
def test_losses_that_compare_each_item_with_each_are_bounded_by_that(data, monkeypatch, loss):
    told = recipe(data, warm_up={"epochs": 0}, loss={"name": loss})
    monkeypatch.setattr(history_adapters, "_SLATE_BYTES", A_USER * ITEMS - 1)
    with pytest.raises(UserError, match=f"{ITEMS} items squared \\(for {loss}\\) exceed .* GB; use batch") as raised:
        make_trainer(told, open_dataset(data))
    few = int(str(raised.value).rpartition("batch.irrelevant=")[2])
    assert 1 < few < ITEMS
    told = recipe(data, warm_up={"epochs": 0}, loss={"name": loss}, batch={"queries": 16, "irrelevant": few})
    assert make_trainer(told, open_dataset(data)).stages[0].at_once >= MODEL["length"]
