"""One direction: a rating is followed from its line in a file to the weights that its gradient moves, room by room."""

import ast
from pathlib import Path

import torch

from songrank import SONG, SlateSampler, models
from songrank.data import open_dataset, prepare
from songrank.losses.registry import LOSSES
from songrank.models.registry import MODELS
from songrank.training.build import make_trainer
from songrank.training.config.recipe import Recipe

SOURCE = Path(__file__).parents[1] / "src" / "songrank"
# What each room may import; CONTRIBUTING.md says what each room holds.
MAY_KNOW = {
    "core": set(),
    "io": {"core"},
    "functional": {"core"},
    "kernels": set(),
    "losses": {"core", "functional"},
    "sampling": {"core", "functional", "kernels"},
    "metrics": {"core", "functional", "kernels", "sampling"},
    "models": {"core", "functional", "io", "kernels"},
    "data": {"core", "functional", "io"},
    "training": {"core", "data", "functional", "io", "kernels", "losses", "metrics", "models", "sampling"},
    "serving": {"core", "data", "io", "models"},
    "baselines": {"core", "data", "functional", "io", "metrics", "models"},
    "analysis": {
        "baselines",
        "core",
        "data",
        "functional",
        "io",
        "losses",
        "metrics",
        "models",
        "sampling",
        "serving",
        "training",
    },
    "integrations": {"core", "io", "losses", "metrics", "sampling"},
    "estimators": {
        "analysis",
        "core",
        "data",
        "functional",
        "io",
        "losses",
        "metrics",
        "models",
        "serving",
        "training",
    },
    "cli": {"analysis", "baselines", "core", "data", "io", "losses", "metrics", "models", "serving", "training"},
}


def rooms_known(room):
    found = set()
    for file in (SOURCE / room).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module == "songrank":
                names = [f"songrank.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            found |= {name.split(".")[1] for name in names if name.startswith("songrank.")}
    return {name for name in found if (SOURCE / name).is_dir()} - {room}


def test_no_room_knows_one_that_comes_after_it():
    assert {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()} == set(MAY_KNOW)
    for room, allowed in MAY_KNOW.items():
        assert rooms_known(room) <= allowed, room


def test_songrank_does_not_know_the_paper_plug_in():
    """One line says how to get it; nothing else under src/songrank names the package."""
    lines = [
        line for file in SOURCE.rglob("*.py") for line in file.read_text().splitlines() if "songrank_paper" in line
    ]
    assert len(lines) == 1
    assert "pip install" in lines[0]


def files(*rooms):
    return [file for room in rooms or MAY_KNOW for file in (SOURCE / room).rglob("*.py")]


def test_rooms_form_no_cycle():
    left = {room: rooms_known(room) for room in MAY_KNOW}
    while left:
        ready = {room for room, known in left.items() if not known & left.keys()}
        assert ready, left
        left = {room: known for room, known in left.items() if room not in ready}


def test_training_and_serving_do_not_know_each_other():
    assert "serving" not in rooms_known("training")
    assert "training" not in rooms_known("serving")


def test_no_room_imports_a_private_name_of_another():
    for file in files():
        room = file.relative_to(SOURCE).parts[0]
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("songrank."):
                theirs = node.module.split(".")[1] != room
                private = [alias.name for alias in node.names if alias.name.startswith("_")]
                private += [part for part in node.module.split(".") if part.startswith("_")]
                assert not (theirs and [name for name in private if name != "__version__"]), (file, node.lineno)


def test_only_the_command_prints():
    for file in files(*(room for room in MAY_KNOW if room != "cli")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                call = ast.unparse(node.func)
                assert call not in ("print", "typer.echo", "sys.stdout.write", "sys.stderr.write"), (file, node.lineno)


# What is asked of objects that are not ours: errors of libraries, and what a version of torch has.
FOREIGN = {"error", "settings", "_aten"}


def test_nothing_is_found_by_sniffing():
    """No ``hasattr``, no ``getattr`` with a default and no ``isinstance`` against an optimiser decides anything."""
    optimisers = {"RowAdam", "Storm", "Adam", "SGD"}
    for file in files("training", "serving", "analysis"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
                continue
            asked = ast.unparse(node.args[0]).split(".")[0]
            sniffs = node.func.id == "hasattr" or (node.func.id == "getattr" and len(node.args) > 2)
            assert not sniffs or asked in FOREIGN, (file, node.lineno)
            if node.func.id == "isinstance":
                kinds = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
                assert not kinds & optimisers, (file, node.lineno)


def test_names_of_losses_and_models_stand_in_their_registries_alone():
    """Defaults of recipes may name one; nothing else branches on a name."""
    names = {*LOSSES, *MODELS} - {"history", "sequence"}  # which are kinds of queries, too
    may = {"training/config/recipe.py", "cli/demo.py"}
    for file in files("training", "serving", "analysis", "sampling", "metrics", "data", "io", "core"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                words = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
                compared = {word for word in words if isinstance(word, str)} & names
                assert not compared or file.relative_to(SOURCE).as_posix() in may, (file, node.lineno, compared)


def test_a_rating_is_followed_from_its_line_to_the_weights_it_moves(tmp_path):
    lines = [f"{user}::{10 * movie}::{1 + (user * movie) % 5}::{movie}" for user in (3, 8) for movie in range(1, 9)]
    (tmp_path / "ratings.dat").write_text("\n".join(lines) + "\n")
    assert "8::50::1::5" in lines  # the one that is followed: user 8, film 50, one star

    dataset = open_dataset(prepare("movielens-1m", tmp_path / "ratings.dat", tmp_path / "data").path)
    user, film = list(dataset.query_ids).index(8), list(dataset.item_ids).index(50)
    split = dataset["train"]
    place = int(split.offsets[user]) + split.item[int(split.offsets[user]) :].tolist().index(film)
    assert (split.label[place], split.time[place]) == (1.0, 5)

    relevance = dataset.relevance("train")
    pair = int(relevance.indptr[user]) + relevance.item[int(relevance.indptr[user]) :].tolist().index(film)
    slate = SlateSampler(relevance, 2, relevant=6, irrelevant=2).draw([user])
    column = int((slate.pair[0] == pair).nonzero())
    assert (int(slate.query[0]), int(slate.item[0, column]), float(slate.label[0, column])) == (user, film, 1.0)

    torch.manual_seed(0)
    model = models.create("matrix-factorisation", num_queries=2, num_items=dataset.num_items, dim=4)
    scores = model(slate.query, slate.item)
    expected = model.query_factors.weight[user] @ model.item_factors.weight[film] + model.bias[film]
    assert torch.allclose(scores[0, column], expected)

    loss = SONG(relevance.num_pairs)
    assert loss.u.read([pair]).isnan()
    scores.retain_grad()
    loss(scores, slate).backward()
    assert loss.u.read([pair]).isfinite()  # remembered under the pair's own row
    pull = scores.grad[0, column]
    assert pull != 0
    assert torch.allclose(model.item_factors.weight.grad[film], pull * model.query_factors.weight[user])

    before = model.item_factors.weight[film].clone()
    torch.optim.SGD(model.parameters(), 0.1).step()
    moved = before - 0.1 * model.item_factors.weight.grad[film]
    assert torch.allclose(model.item_factors.weight[film], moved)


def test_a_trainer_is_built_of_the_same_rooms(tmp_path):
    dataset = prepare("synthetic", None, tmp_path / "data", queries=20, items=30, pairs=200)
    recipe = Recipe.read({"data": "x", "model": "neumf", "fine_tuning": {"epochs": 1}, "device": "cpu"})
    trainer = make_trainer(recipe, dataset)
    rooms = {type(part).__module__.split(".")[1] for part in (trainer.model, trainer.adapter, trainer.stages[1].loss)}
    assert rooms == {"models", "training", "losses"}
    assert trainer.stages[1].sampler.relevance is trainer.adapter.relevance
