"""The parts of a model that come from its data set: sizes, inputs, and the tables of the model folder."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from songrank.core.csr import CSR, segment_rows
from songrank.core.pairs import key_table, latest_pairs, table_keys, unpack
from songrank.data import CatalogueSplit, Dataset
from songrank.data.histories import dataset_histories
from songrank.functional.feature_map import FeatureMap
from songrank.models.base import RankingModel
from songrank.models.model_folder import READS, ModelFolder, read_documents, read_words, save_model


def write_model(
    folder: Path,
    model: RankingModel,
    section: Mapping[str, Any],
    dataset: Dataset,
    maps: Mapping[str, FeatureMap] | None = None,
) -> None:
    """Write a model trained on ``dataset`` with everything needed for serving; ``section`` is that of its recipe, and
    ``maps`` are those of :func:`songrank.training.feature_maps.map_features`.
    """
    has_users = dataset.task == "recommendation"
    seen, item_counts = _seen(dataset) if has_users else (None, None)
    inputs, words, documents, histories = model.capabilities.inputs, None, None, None
    reads = {key: dataset.info[key] for key in READS if key in dataset.info}
    part = dataset["train"]
    if isinstance(part, CatalogueSplit) and part.tokens is not None:
        words = read_words(dataset.path / reads["vocabulary"]["file"])
        reads["vocabulary"] = {**reads["vocabulary"], "width": part.tokens.shape[1]}
    elif "vocabulary" in reads:
        documents = read_documents(dataset.path / reads["vocabulary"]["file"])
    arguments = model_arguments(dataset, type(model))
    sizes = {name: part.shape[1] if isinstance(part, Tensor) else part for name, part in arguments.items()}
    info = {"task": dataset.task, "inputs": inputs, "model": dict(section), "sizes": sizes, **reads}
    item_ids = dataset.item_ids if inputs != "documents" else None
    query_ids = dataset.query_ids if has_users else None
    if (length := model.history_length) is not None:
        known = dataset_histories(dataset, tuple(dataset), times=model.reads_times).tail(length)
        columns = {"item": known["item"].to(torch.int32)} | ({"time": known["time"]} if model.reads_times else {})
        histories = CSR(known.offsets, columns)
        made = dataset.info["made"]["options"]
        info |= {"duplicates": made.get("duplicates", "keep"), "min_rating": made.get("min_rating")}
    encoders = {word: dataset.encoder_arrays(word) for word in dataset.features} if maps else {}
    info |= {f"{word}_features": {"columns": dataset.info[f"{word}_features"]["columns"]} for word in encoders}
    texts = words, histories, documents
    tables = ModelFolder(
        folder, info, model, item_ids, query_ids, seen, item_counts, *texts, encoders=encoders, maps=maps or {}
    )
    save_model(tables, folder)


def model_inputs(dataset: Dataset) -> tuple[str, ...]:
    """The possible inputs of models of this data set: ids or histories, documents, features, or words."""
    part = dataset["train"]
    if not isinstance(part, CatalogueSplit):
        return ("documents",)
    if part.tokens is not None:
        return ("words",)
    return ("features",) if part.features is not None else ("ids", "histories")


def model_sizes(dataset: Dataset) -> dict[str, int]:
    """The sizes of a model that follow from the data set."""
    part = dataset["train"]
    if not isinstance(part, CatalogueSplit):
        return {"num_features": part.features.shape[1]}
    if part.tokens is not None:
        return {"num_labels": dataset.num_items, "vocabulary": int(dataset.info["vocabulary"]["size"])}
    if part.features is not None:
        return {"num_labels": dataset.num_items, "num_features": part.num_features}
    return {"num_queries": dataset.num_queries, "num_items": dataset.num_items}


def model_arguments(dataset: Dataset, kind: type[RankingModel]) -> dict[str, int | Tensor]:
    """The constructor arguments of a model that follow from the data set: sizes, and ``edges`` of a graph."""
    known = inspect.signature(kind).parameters
    found: dict[str, int | Tensor] = {name: size for name, size in model_sizes(dataset).items() if name in known}
    if kind.capabilities.graph:
        pairs = dataset.relevance("train")
        found["edges"] = torch.stack([segment_rows(pairs.num_relevant), pairs.item.long()])
    return found


def _seen(dataset: Dataset) -> tuple[CSR, Tensor]:
    """The seen items of each user over all splits, ascending, and the number of training users per item."""
    parts = [part for name in dataset if isinstance(part := dataset[name], CatalogueSplit)]
    tables = [table for part in parts for table in (part.pairs, part.seen, part.cold) if table is not None]
    keys: Tensor = torch.cat([table_keys(table, dataset.num_items) for table in tables]).unique()  # type: ignore[no-untyped-call]
    trained = unpack(latest_pairs(parts[0].pairs, dataset.num_items)[0], dataset.num_items)[1]
    offsets, item = key_table(keys, dataset.num_queries, dataset.num_items)
    return CSR(offsets, {"item": item}), torch.bincount(trained, minlength=dataset.num_items)
