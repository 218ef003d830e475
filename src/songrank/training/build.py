"""From a recipe and a data set to a trainer: the one place where model, loss, sampler and stages meet."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from songrank.core.devices import choose_device
from songrank.core.errors import UserError, memory_shortage
from songrank.data import Dataset
from songrank.functional.hashing import derive_key
from songrank.losses.base import RankingLoss
from songrank.models.registry import INPUTS
from songrank.sampling import SequenceSampler, SlateSampler
from songrank.training.checkpoints import Checkpoints
from songrank.training.config.components import make_component
from songrank.training.config.recipe import FineTuning, Recipe, WarmUp
from songrank.training.trained_model import model_inputs, model_sizes
from songrank.training.trainer.batch_adapters import Feed, SequenceFeed, make_feed
from songrank.training.trainer.loop import Trainer
from songrank.training.trainer.stages import Stage

_SLATE_BYTES = 2**28
"""Of scores over histories that are made at a time; what losses make of them takes several times as much."""


def make_model(section: dict[str, Any], dataset: Dataset) -> torch.nn.Module:
    """The recipe's model in the data set's sizes, or a ``UserError`` where it cannot read this kind of data."""
    wanted = model_inputs(dataset)
    names = [name for inputs in wanted for name in INPUTS[inputs]]
    if section["name"] not in names:
        raise UserError(
            f"model.name is {section['name']!r}, and {dataset.path} holds {dataset.task} data with {wanted[0]}; "
            f"expected {' or '.join(names)}: say model={names[0]}, or see `songrank recipes`"
        )
    model: torch.nn.Module = make_component("model", section, model_sizes(dataset))
    return model


def make_trainer(
    recipe: Recipe,
    dataset: Dataset,
    *,
    checkpoints: Checkpoints | None = None,
    observe: Callable[[dict[str, Any]], None] = lambda line: None,
    tick: Callable[[], None] = lambda: None,
    warn: Callable[[str], None] = lambda message: None,
    speed: str = "auto",
    save_every: float = 60.0,
) -> Trainer:
    """All that a recipe says about a data set, ready to run.

    >>> import tempfile
    >>> from songrank.data import prepare
    >>> dataset = prepare("synthetic", None, tempfile.mkdtemp() + "/demo", queries=30, items=40, pairs=300)
    >>> stage = {"epochs": 1, "learning_rate": 0.01}
    >>> recipe = Recipe.read({"data": "demo", "model": {"name": "neumf", "dim": 8}, "batch": {"irrelevant": 20},
    ...                       "warm_up": stage, "fine_tuning": stage, "device": "cpu"})
    >>> make_trainer(recipe, dataset).run().step
    2
    """
    check_fit(recipe, dataset)
    device, watch = choose_device(recipe.device), recipe.validation
    torch.manual_seed(recipe.seed)
    with _within_bounds():
        model = make_model(recipe.model, dataset).to(device)
        lazy = "lazy-adam" in (recipe.warm_up.optimiser, recipe.fine_tuning.optimiser)
        if lazy and not hasattr(model, "row_tables"):
            raise UserError(f"optimiser is lazy-adam, and {recipe.model['name']} has no tables of ids: say adam")
        power = max(recipe.warm_up.item_decay_power, recipe.fine_tuning.item_decay_power)
        if power and "item" not in getattr(model, "row_tables", lambda pairs: {})(0):
            raise UserError(f"item_decay_power is {power:g}, and {recipe.model['name']} has no table of items: say 0")
        feed = make_feed(
            dataset, device, model, recipe.batch.following or 1, recipe.gain, recipe.batch.windows or "last"
        )
        return Trainer(
            model,
            feed,
            _stages(recipe, dataset, feed),
            metric=watch.metric,
            evaluate_every=watch.every,
            candidates=watch.candidates,
            policies=policies(recipe),
            patience=watch.patience,
            checkpoints=checkpoints,
            save_every=save_every,
            seed=recipe.seed,
            precision=recipe.precision,
            observe=observe,
            tick=tick,
            warn=warn,
            speed=speed,
            deterministic=recipe.deterministic,
        )


def check_fit(recipe: Recipe, dataset: Dataset) -> None:
    """Raise if this data set cannot be trained on as the recipe wants."""
    if recipe.members is not None:
        raise UserError(f"members is {recipe.members}; expected none: such runs are made by `songrank ensemble` alone")
    if "train" not in dataset:
        raise UserError(f"{dataset.path} has no training split; it has {', '.join(dataset)}")
    watch = recipe.validation
    if watch.every == 0:
        return
    if "validation" not in dataset:
        raise UserError(
            f"{dataset.path} has no validation split; prepare it with --validation 0.1, "
            "or say validation.every=0 to train without one"
        )
    if watch.candidates != "all" and dataset.form == "list":
        raise UserError(
            f"validation.candidates is {watch.candidates}; expected 'all': search queries bring their own lists"
        )
    if recipe.evaluation.empty == "skip" and not bool((dataset["validation"].label > 0).any()):
        raise UserError(f"no label of {dataset.path}'s validation split is above 0; say validation.every=0")


@contextmanager
def _within_bounds() -> Iterator[None]:
    """One line for sizes that are right alone, and not with this data set or this machine."""
    try:
        yield
    except (ValueError, OverflowError) as error:
        raise UserError(str(error)) from None
    except (RuntimeError, MemoryError) as error:
        short = memory_shortage(error)
        if short is None:
            raise
        raise UserError(f"{short}; take a smaller model") from None


def policies(recipe: Recipe) -> dict[str, Any]:
    """How ties, empty queries and labels count in a recipe's evaluations."""
    return {"ties": recipe.evaluation.ties, "empty": recipe.evaluation.empty, "gain": recipe.gain}


def _stages(recipe: Recipe, dataset: Dataset, feed: Feed) -> list[Stage]:
    relevance, batch = feed.relevance, recipe.batch
    sizes = {"num_pairs": relevance.num_pairs, "num_queries": relevance.num_queries, "seed": recipe.seed}
    at_once = None
    for key in ("following", "windows"):
        if getattr(batch, key) is not None and not isinstance(feed, SequenceFeed):
            raise UserError(
                f"batch.{key} is {getattr(batch, key)}, and {recipe.model['name']} reads no order; leave it out"
            )
    if isinstance(feed, SequenceFeed):
        at_once = _rows_at_once(recipe, feed)
        # A step has the entries of so many users of all; the last windows hold the same in each epoch, random ones any.
        active = int((feed.users.num_relevant > 0).sum()) * feed.length
        if feed.windows == "random":
            active = active * feed.relevance.num_queries // max(1, feed.rows)
        sizes |= {"queries_per_batch": batch.queries * feed.length, "active_queries": active}
    else:
        sizes |= {"queries_per_batch": batch.queries, "active_queries": int((relevance.num_relevant > 0).sum())}
    stages: list[Stage] = []
    for number, (section, loss) in enumerate(_sections(recipe)):
        if section.epochs == 0:
            continue
        built: RankingLoss = make_component("loss", loss, sizes).to(relevance.device)
        warming = isinstance(section, WarmUp)
        stages.append(
            Stage(
                "warm-up" if warming else "fine-tuning",
                built,
                _sampler(recipe, dataset, feed, seed=derive_key(recipe.seed, number) % 2**31, k=built.k),
                **section.model_dump(exclude={"loss", "reset_head"}),
                reset_head=not warming and recipe.fine_tuning.reset_head and bool(stages),
                at_once=at_once,
            )
        )
    return stages


def _sections(recipe: Recipe) -> tuple[tuple[WarmUp | FineTuning, dict[str, Any]], ...]:
    """What a recipe says of each stage, and the stage's loss."""
    return (recipe.warm_up, recipe.warm_up.loss), (recipe.fine_tuning, recipe.loss)


def _rows_at_once(recipe: Recipe, feed: SequenceFeed) -> int | None:
    """How many entries of histories are scored at a time, so that memory is bounded; None for all of a batch."""
    batch, users = recipe.batch, min(recipe.batch.queries, feed.users.num_queries)
    if batch.length is not None:
        raise UserError(f"batch.length is {batch.length}; expected none: of histories, model.length items are read")
    columns = feed.users.num_items
    if batch.irrelevant != "all":
        columns = min(columns, feed.following + int(batch.irrelevant))
    losses = {loss["name"] for section, loss in _sections(recipe) if section.epochs}
    squared = losses & {"neural-ndcg", "pirank"}  # which compare each item with each
    rows = _SLATE_BYTES // (4 * columns * (columns if squared else 1))
    most = rows // feed.longest
    if users <= most:
        return None
    whole = losses & {"faster-song", "faster-k-song"}
    if most > 0 and not whole:
        return rows
    room = _SLATE_BYTES // (4 * feed.longest * (users if whole else 1))  # for the items of a row
    few = min(2000, (math.isqrt(room) if squared else room) - feed.following)
    ways = [f"batch.irrelevant={few}"] if 0 < few < columns - feed.following else []
    ways += [f"batch.queries={most}"] if most > 0 else []
    size = f"{users:,} users × {feed.longest:,} entries" if most > 0 else f"a user's {feed.longest:,} entries"
    items = f"{columns:,} items{f' squared, as {min(squared)} has them,' if squared else ''}"
    raise UserError(
        f"batch.irrelevant is {batch.irrelevant}: scores of {size} × {items} are more than "
        f"{_SLATE_BYTES / 1e9:.2f} GB{f', and {whole.pop()} takes them all at once' if most > 0 else ''}: "
        f"say {' or '.join(ways) or 'a smaller model.length'}"
    )


def _sampler(recipe: Recipe, dataset: Dataset, feed: Feed, **options: Any) -> SlateSampler:
    """Slates of the recipe's sizes: of what comes next in histories, or of queries with some of their items."""
    batch = recipe.batch
    options |= {"gain": recipe.gain, "query_weight": dataset["train"].weight}
    if isinstance(feed, SequenceFeed):
        options |= {"targets": feed.relevance, "windows": feed.windows}
        return SequenceSampler(feed.users, feed.histories, feed.length, batch.queries, batch.irrelevant, **options)
    columns = _columns(recipe, dataset)
    partial = "pad" if feed.relevance.device.type == "cuda" else "short"  # one shape for the captured step
    return SlateSampler(feed.relevance, batch.queries, **columns, **options, partial=partial)


def _columns(recipe: Recipe, dataset: Dataset) -> dict[str, Any]:
    """Which items a slate holds: the recipe's word, else what a list task's preparation recorded."""
    batch = recipe.batch
    length = batch.length
    if length is None and dataset.form == "list":
        length = dataset.info.get("training", {}).get("list_size")
    if length == "all":
        return {"relevant": "all", "irrelevant": "all"}
    return {"relevant": batch.relevant, "irrelevant": batch.irrelevant, "length": length}
