"""Models built from their description in ``model.json``, a blend from those of its members."""

from collections.abc import Mapping
from typing import Any

from songrank.models.base import RankingModel
from songrank.models.blend import Blend
from songrank.models.ensemble import Ensemble
from songrank.models.registry import MODELS

BLEND = "blend"
"""The name of a blend in ``model.json``; its options are the descriptions of its members, with their weights."""


def build_described(info: Mapping[str, Any], most: int) -> RankingModel:
    """The model that ``model``, ``sizes`` and ``members`` describe, which has at most ``most`` layers and members.

    Raises an error of any type if there is no such model.

    >>> build_described({"model": {"name": "mlp", "hidden": [4]}, "sizes": {"num_features": 3}}, most=4).num_features
    3
    """
    section = info["model"]
    if section["name"] != BLEND:
        return _one_recipe(info, most)
    parts = section["members"]
    if not isinstance(parts, list) or not 0 < len(parts) <= most:
        raise ValueError("a blend with an invalid list of members")
    for part in parts:
        if part["model"]["name"] == BLEND:
            raise ValueError("a blend within a blend")
        if any(info["sizes"].get(name, size) != size for name, size in part["sizes"].items()):
            raise ValueError("members of a blend with different sizes")
    return Blend([_one_recipe(part, most) for part in parts], [part["weight"] for part in parts])


def _one_recipe(info: Mapping[str, Any], most: int) -> RankingModel:
    """A model, or an ensemble of models with the same description."""
    options, members = {key: value for key, value in info["model"].items() if key != "name"}, info.get("members", 1)
    layers = [options.get("blocks", 0), *(len(value) for value in options.values() if isinstance(value, list))]
    if max(layers) > most:  # before building them
        raise ValueError(f"{max(layers):,} layers, and {most:,} weights")
    if not isinstance(members, int) or not 0 < members <= most:
        raise ValueError(f"{members!r} members")
    models = [MODELS[info["model"]["name"]](**info["sizes"], **options) for _ in range(members)]
    return models[0] if members == 1 else Ensemble(models)
