"""A leaderboard: baselines, models and losses on one data set, with equal time for each."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from songrank.analysis.auto import AutoRun
from songrank.analysis.auto_parts import SEQUENCE_ON_A_CPU, default_budget, smaller_on_a_cpu
from songrank.analysis.baseline_methods import baseline_methods
from songrank.analysis.finished_runs import FinishedRun, Method, read_run
from songrank.analysis.method_comparison import MethodComparison, compare_methods
from songrank.core.devices import choose_device
from songrank.core.errors import UserError, shown
from songrank.core.text import counted
from songrank.data import Dataset, open_dataset
from songrank.io.files import sha256
from songrank.io.source import Progress
from songrank.metrics.names import parse_metrics
from songrank.training.config.recipe import Recipe
from songrank.training.config.recipe_files import load_recipe
from songrank.training.run import Run
from songrank.training.run_directory import RunDirectory, fingerprint


@dataclass(frozen=True)
class Entry:
    """A method of the leaderboard.

    Args:
        name: name of its directories, and in ``--methods``.
        title: name in tables.
        recipe: name of a built-in recipe; None for a baseline, which is fitted by ``songrank.baselines``.
        changes: changes of the recipe.
        on_a_cpu: further changes on a CPU.
        random: whether its result depends on the seed.
    """

    name: str
    title: str
    recipe: str | None
    changes: tuple[str, ...] = ()
    on_a_cpu: tuple[str, ...] = ()
    random: bool = True


_RECOMMENDATION = (
    Entry("popularity", "popularity", None, random=False),
    Entry("ease", "EASE", "ease", random=False),
    Entry("ials", "iALS", None, random=False),
    Entry("mf-softmax", "matrix factorisation, softmax", "recommendation", ("loss=softmax",)),
    Entry("mf-song", "matrix factorisation, SONG", "recommendation"),
    Entry("sequence-softmax", "sequence, softmax", "sequences", ("loss=softmax",), SEQUENCE_ON_A_CPU),
    Entry("sequence-song", "sequence, SONG", "sequences", (), SEQUENCE_ON_A_CPU),
    Entry("auto", "auto", "auto"),
)
_SEARCH = (
    Entry("mlp-softmax", "MLP, softmax", "search", ("loss=softmax",)),
    Entry("mlp-lambdarank", "MLP, LambdaRank", "search", ("loss=lambdarank",)),
    Entry("mlp-song", "MLP, SONG", "search"),
)
_LABELLING = (
    Entry("mlp-bce", "MLP, binary cross-entropy", "labelling", ("loss=bce",)),
    Entry("mlp-softmax", "MLP, softmax", "labelling", ("loss=softmax",)),
    Entry("mlp-song", "MLP, SONG", "labelling"),
)
ENTRIES = {"recommendation": _RECOMMENDATION, "search": _SEARCH, "labelling": _LABELLING}
"""The methods by task."""
REFERENCE = {"recommendation": "ease", "search": "mlp-softmax", "labelling": "mlp-bce"}
"""The method that the others are compared with, by task."""


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """The methods, best first, with their comparison and the training seconds of each, NaN for a baseline."""

    comparison: MethodComparison
    seconds: dict[str, float]


def entries_for(dataset: Dataset, names: Sequence[str] | None = None) -> list[Entry]:
    """The methods for the task of a data set, or those with these names."""
    known = {entry.name: entry for entry in ENTRIES[dataset.task]}
    for name in names or ():
        if name not in known:
            raise UserError(f"method is {shown(name)}; expected some of {', '.join(known)}")
    if names and "ials" in names and find_spec("implicit") is None:
        raise UserError("method ials needs implicit; install it with `pip install 'songrank[baselines]'`")
    wanted = [known[name] for name in names] if names else list(known.values())
    return [entry for entry in wanted if entry.name != "ials" or find_spec("implicit") is not None]


def make_leaderboard(
    data: Path,
    path: Path,
    *,
    budget: float | None = None,
    seeds: Sequence[int] = (0,),
    methods: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    split: str = "test",
    device: str = "auto",
    say: Callable[[str], None] = lambda message: None,
    progress: Progress | None = None,
    stopped: Callable[[Callable[[], None]], None] = lambda stop: None,
) -> Leaderboard:
    """Train all methods, each within ``budget`` seconds per seed, and compare them; finished runs are kept.

    A method whose training fails is reported and left out.

    Args:
        data: directory of a prepared data set.
        path: directory of the runs, ``METHOD-SEED``.
        budget: seconds of training per run; by default that of :mod:`songrank.analysis.auto_parts`.
        seeds: random seeds; methods without randomness are trained once.
        methods: names of :data:`ENTRIES`; by default all for the task.
        metrics: metrics to compare; by default those of the recipe of the reference.
        split: split to compare on.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        say: called with one line per run.
        progress: progress of baselines.
        stopped: receives the function that stops the current run, for signal handlers.
    """
    dataset = open_dataset(data)
    entries = entries_for(dataset, methods)
    if split not in dataset:
        raise UserError(f"{dataset.path} has no {split} split; found {', '.join(dataset)}")
    metrics = _metrics(metrics, dataset)
    budget = default_budget(dataset) if budget is None else budget
    timed = [entry for entry in entries if entry.recipe and entry.random]
    most = counted(len(timed) * len(seeds), "runs")
    say(f"{most} with up to {budget:,.0f} s of training each; EASE and other baselines have no limit")
    if choose_device(device).type == "cpu" and any(entry.on_a_cpu for entry in entries):
        say(f"sequence models: {smaller_on_a_cpu()}")
    groups: list[tuple[Entry, list[FinishedRun]]] = []
    failed: UserError | None = None
    for entry in entries:
        runs = []
        for seed in (seeds if entry.random else seeds[:1]) if entry.recipe else ():
            place = path / f"{entry.name}-{seed}"
            try:
                _train(_recipe(entry, dataset, seed, device, metrics, budget), dataset, place, budget, say, stopped)
            except UserError as error:
                failed = error
                say(f"{place.name}: failed and is left out ({error})")
                continue
            runs.append(read_run(place, split))
            told = ", ".join(f"{name} {value:.4f}" for name, value in list(runs[-1].metrics.items())[:2])
            say(f"{place.name}: {split} {told}")
        if runs or not entry.recipe:
            groups.append((entry, runs))
    if failed is not None and not any(runs for _, runs in groups):
        raise failed
    return _compare(groups, REFERENCE[dataset.task], split, metrics, progress)


def _metrics(wanted: Sequence[str] | None, dataset: Dataset) -> list[str]:
    """The metrics by name; by default those of the recipe of the reference."""
    if wanted is None:
        (recipe,) = (entry.recipe for entry in ENTRIES[dataset.task] if entry.name == REFERENCE[dataset.task])
        return load_recipe(str(recipe), [f"data={dataset.path}"]).evaluation.metrics
    try:
        return list(dict.fromkeys(str(metric) for metric in parse_metrics(list(wanted))))
    except ValueError as error:
        raise UserError(str(error)) from None


def _recipe(entry: Entry, dataset: Dataset, seed: int, device: str, metrics: list[str], budget: float) -> Recipe:
    assert entry.recipe is not None
    small = entry.on_a_cpu if choose_device(device).type == "cpu" else ()
    changes = [f"data={dataset.path}", f"seed={seed}", f"device={device}", *entry.changes, *small]
    changes.append(f"evaluation.metrics={json.dumps(metrics)}")
    changes += [f"auto.budget={budget}"] if entry.recipe == "auto" else []
    return load_recipe(entry.recipe, changes)


def _train(
    recipe: Recipe,
    dataset: Dataset,
    place: Path,
    budget: float,
    say: Callable[[str], None],
    stopped: Callable[[Callable[[], None]], None],
) -> None:
    """Train a run unless it is finished; a stopped one is resumed, one with other settings is trained again."""
    told = [recipe.model_dump(mode="json", exclude={"data"}), budget, fingerprint(dataset)]
    settings = sha256(json.dumps(told, sort_keys=True))
    notes = RunDirectory(place).notes() if place.exists() else {}
    same = notes.get("leaderboard") == settings
    if same and notes.get("status") == "finished":
        return
    if notes and not same:
        say(f"{place.name}: trained again, since the recipe, the budget or the data set has changed")
    kind: Any = Run if recipe.auto is None else AutoRun
    limit = {"limit": budget} if recipe.auto is None else {}
    if same and notes.get("status") in ("running", "stopped"):
        run = kind.resume(place, data=dataset.path, **limit)
    else:
        run = kind.begin(recipe, place, overwrite=True, **limit)
        run.directory.note(leaderboard=settings)
    stopped(run.stop)
    if not run.finish():
        raise KeyboardInterrupt


def _compare(
    groups: Sequence[tuple[Entry, list[FinishedRun]]],
    reference: str,
    split: str,
    names: list[str],
    progress: Progress | None,
) -> Leaderboard:
    trained = [Method(entry.title, tuple(runs)) for entry, runs in groups if runs]
    if not trained:
        raise UserError("the leaderboard has baselines only; add a model, such as --methods popularity,ease")
    untrained = [entry for entry, runs in groups if not runs]
    beside = baseline_methods([entry.name for entry in untrained], trained, split, names, progress=progress)
    titled = [Method(entry.title, own.runs, own.measured) for entry, own in zip(untrained, beside, strict=True)]
    titles = {entry.name: entry.title for entry, _ in groups}
    methods = [*trained, *titled]
    first = names[0]
    methods.sort(key=lambda method: -sum(run.metrics[first] for run in method.runs) / len(method.runs))
    found = compare_methods(methods, metrics=names, baseline=titles.get(reference))
    seconds = {
        method.label: sum(float(RunDirectory(run.path).notes().get("seconds", 0.0)) for run in method.runs)
        / len(method.runs)
        for method in trained
    }
    return Leaderboard(found, seconds)
