"""Build the trainer of a recipe: model, losses, samplers and stages."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from songrank.core.devices import choose_device
from songrank.core.errors import UserError, memory_shortage
from songrank.core.processes import ALONE, Processes
from songrank.data import Dataset
from songrank.data.preparation.data_notes import FIRST_INFINITE, large_label
from songrank.losses.registry import LOSSES
from songrank.models.base import Capabilities, RankingModel
from songrank.models.registry import INPUTS, MODELS
from songrank.training.config.components import typed_component
from songrank.training.config.recipe import Recipe
from songrank.training.config.schedule import epochs_of, stage_lengths
from songrank.training.optim.registry import OPTIMISERS
from songrank.training.trained_model import model_arguments, model_inputs
from songrank.training.trainer.batch_adapters import CatalogueAdapter
from songrank.training.trainer.closed_form import ClosedFormTrainer
from songrank.training.trainer.history_adapters import adapter_for
from songrank.training.trainer.loop import Trainer
from songrank.training.trainer.own_rows import NO_ROWS, build_own
from songrank.training.trainer.stages import Stage


def make_model(section: dict[str, Any], dataset: Dataset) -> RankingModel:
    """Build the recipe's model with the sizes of the data set; ``UserError`` if it cannot read this kind of data."""
    kind, options = _model_kind(section, dataset)
    return kind.build(options, model_arguments(dataset, kind))


def _model_kind(section: dict[str, Any], dataset: Dataset) -> tuple[type[RankingModel], dict[str, Any]]:
    wanted = model_inputs(dataset)
    names = [name for inputs in wanted for name in INPUTS[inputs]]
    if section["name"] not in names:
        raise UserError(
            f"model.name is {section['name']!r}, but {dataset.path} contains {dataset.task} data with {wanted[0]}; "
            f"expected {' or '.join(names)}: pass model={names[0]}, or see `songrank recipes`"
        )
    return MODELS[section["name"]], typed_component("model", section)[1]


def make_trainer(recipe: Recipe, dataset: Dataset, processes: Processes = ALONE, **options: Any) -> Trainer:
    """Build the trainer of a recipe, with further ``options``; everything is validated before the model is built.

    Each of several ``processes`` has a range of the training queries, and their rows of the model's tables of queries.
    """
    check_fit(recipe, dataset)
    device, watch = choose_device(recipe.device), recipe.validation
    if processes.world > 1 and MODELS[recipe.model["name"]].capabilities.closed_form:
        name = recipe.model["name"]
        raise UserError(f"model {name!r} is fitted in closed form by one process, not {processes.world}; start one")
    with _within_bounds():
        kind, of_model = _model_kind(recipe.model, dataset)
        _check_capabilities(recipe, kind.capabilities)
        reads = {
            "following": recipe.batch.following or 1,
            "windows": recipe.batch.windows or "last",
            "gain": recipe.gain,
        }
        reads["times"] = bool(of_model.get("time_bias", False))
        reads["packed"] = kind.capabilities.packed and options.get("speed") != "plain"
        query, length, evaluated = (
            kind.capabilities.query,
            of_model.get("length"),
            ["validation"] if watch.every else [],
        )
        adapter = adapter_for(dataset, device, query, length, **reads, evaluated=evaluated)
        adapter.share(processes)
        sections = [(section, loss) for section, loss in recipe.sections() if section.epochs]
        batch = recipe.batch.fitted(adapter.active_queries)
        at_once = adapter.rows_at_once(batch, {loss["name"]: LOSSES[loss["name"]].traits for _, loss in sections})
        sizes, loss_sizes = model_arguments(dataset, kind), {**adapter.loss_sizes(batch), "seed": recipe.seed}
        slates = {"seed": recipe.seed, "gain": recipe.gain}
        samplers = [adapter.sampler(batch, **slates, stream=s.number, k=loss.get("k")) for s, loss in sections]
        torch.manual_seed(recipe.seed)
        rows = NO_ROWS
        if processes.world > 1 and kind.capabilities.query_tables and not kind.capabilities.graph:
            assert isinstance(adapter, CatalogueAdapter)
            model, rows = build_own(
                lambda count: kind.build(of_model, {**sizes, "num_queries": count}), adapter.own, dataset.num_queries
            )
            adapter.first_row = adapter.own[0] if rows.tables else 0
        else:
            model = kind.build(of_model, sizes)
        model = model.to(device)
        typed = [(LOSSES[loss["name"]], typed_component("loss", loss)[1]) for _, loss in sections]
        losses = [loss.build(of_loss, loss_sizes).to(device) for loss, of_loss in typed]
        stages = []
        for (section, _), sampler, loss in zip(sections, samplers, losses, strict=True):
            values = {**section.model_dump(exclude={"loss", "reset_head", "min_steps"}), "at_once": at_once}
            values |= stage_lengths(section, len(sampler))
            resets = section is recipe.fine_tuning and recipe.fine_tuning.reset_head and len(sections) > 1
            stages.append(Stage(section.title, loss, sampler, reset_head=resets, **values))
        options |= recipe.model_dump(include={"seed", "precision", "deterministic"})
        options |= watch.model_dump(include={"metric", "candidates", "patience", "keep"})
        every = epochs_of(watch.every, watch.min_steps, len(samplers[0])) if samplers else watch.every
        trainer = ClosedFormTrainer if kind.capabilities.closed_form else Trainer
        options |= {"processes": processes, "own_rows": rows}
        return trainer(model, adapter, stages, evaluate_every=every, policies=policies(recipe), **options)


def _check_capabilities(recipe: Recipe, able: Capabilities) -> None:
    name, sections = recipe.model["name"], [section for section, _ in recipe.sections()]
    lacks = "reads all rows of its tables" if able.graph else ""
    if not able.sparse_rows and any(not OPTIMISERS[section.optimiser].whole_gradient for section in sections):
        lacks = lacks or "has no embedding tables of ids"
        raise UserError(f"optimiser is lazy-adam, but model {name!r} {lacks}; use adam")
    power = max(section.item_decay_power for section in sections)
    if power and not (able.sparse_rows and able.item_tables):
        lacks = lacks or "has no item embedding table"
        raise UserError(f"item_decay_power is {power:g}, but model {name!r} {lacks}; use 0")
    for key in ("following", "windows"):
        value = getattr(recipe.batch, key)
        if value is not None and able.query != "sequence":
            raise UserError(f"batch.{key} is {value}, but model {name!r} ignores order; remove it")


def check_fit(recipe: Recipe, dataset: Dataset) -> None:
    """Raise if the recipe cannot be trained on this data set."""
    if recipe.members is not None:
        raise UserError(f"members is {recipe.members}; expected none: only `songrank ensemble` creates such runs")
    if recipe.blend is not None:
        raise UserError("blend is given; expected none: only `songrank ensemble` creates such runs")
    if recipe.auto is not None:
        raise UserError("auto is given; expected none, except for `songrank train` with the recipe auto")
    if "train" not in dataset:
        raise UserError(f"{dataset.path} has no training split; found {', '.join(dataset)}")
    most = large_label(dataset.info)
    if recipe.gain == "exp2" and most >= FIRST_INFINITE:
        why = f"labels reach {most:,g}, and gain 2^y − 1 is infinite in float32 from y = {FIRST_INFINITE} on"
        raise UserError(f"{dataset.path}: {why}; pass gain=linear, or prepare smaller labels")
    watch = recipe.validation
    if watch.every == 0:
        return
    if "validation" not in dataset:
        fix = "prepare it with --validation 0.1, or pass validation.every=0 to train without one"
        raise UserError(f"{dataset.path} has no validation split; {fix}")
    if watch.candidates != "all" and dataset.form == "list":
        expected = "expected 'all': search queries have their own lists"
        raise UserError(f"validation.candidates is {watch.candidates}; {expected}")
    if recipe.evaluation.empty == "skip" and not bool((dataset["validation"].label > 0).any()):
        raise UserError(f"{dataset.path} has no label above 0 in its validation split; pass validation.every=0")


@contextmanager
def _within_bounds() -> Iterator[None]:
    """One-line errors for sizes that do not fit the data set or the machine."""
    try:
        yield
    except UserError:  # a ValueError with its own exit code, such as that of a lost process
        raise
    except (ValueError, OverflowError) as error:
        raise UserError(str(error)) from None
    except (RuntimeError, MemoryError) as error:
        short = memory_shortage(error)
        if short is None:
            raise
        raise UserError(f"{short}; use a smaller model") from None


def policies(recipe: Recipe) -> dict[str, Any]:
    """The evaluation policies of a recipe: ties, empty queries, gain."""
    return {"ties": recipe.evaluation.ties, "empty": recipe.evaluation.empty, "gain": recipe.gain}
