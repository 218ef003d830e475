"""Helpers that tests of several modules share."""

import hashlib
import inspect
import json
import random

import pytest
from safetensors.torch import load_file, save_file

from songrank import models
from songrank.core.errors import DataError
from songrank.io.json_files import read_json, write_json
from songrank.models.registry import MODELS
from songrank.serving.open import open_model
from songrank.training.trained_model import model_sizes

SECTIONS = {
    "ids": {"name": "neumf", "dim": 4, "hidden": [4]},
    "histories": {"name": "sequence", "dim": 4, "blocks": 1, "heads": 2, "length": 3},
    "documents": {"name": "context-aware", "dim": 4, "feed_forward": 4, "blocks": 1, "heads": 2},
    "features": {"name": "label-mlp", "hidden": [4]},
    "words": {"name": "xml-cnn", "dim": 4, "filters": 2, "windows": [2], "pools": 2, "bottleneck": 4},
}


def sources(folder):
    """Small files of each kind, and how they are prepared."""
    rng = random.Random(0)
    rows = [{"user": f"u{user}", "item": item} for user in range(12) for item in rng.sample(range(30), 6)]
    (folder / "log.csv").write_text("user,item\n" + "".join(f"{row['user']},{row['item']}\n" for row in rows))
    lines = [
        f"{rng.randint(0, 2)} qid:{query} 1:{rng.random()} 2:{rng.random()}\n" for query in range(9) for _ in range(4)
    ]
    (folder / "letor.txt").write_text("".join(lines))
    bags = [f"{rng.randrange(5)} {rng.randrange(4)}:1 {4 + rng.randrange(4)}:2\n" for _ in range(20)]
    (folder / "bags.txt").write_text("20 8 5\n" + "".join(bags))
    texts = [{"text": f"red {rng.choice(['cat', 'dog', 'été'])} sat", "labels": [rng.choice("abc")]} for _ in range(20)]
    (folder / "texts.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))
    random_split = {"split": "random", "validation": 0.2, "test": 0.2}
    return {
        "ids": ("interactions", "log.csv", {}),
        "histories": ("interactions", "log.csv", {}),
        "documents": ("letor", "letor.txt", random_split),
        "features": ("xmc", "bags.txt", random_split),
        "words": ("xmc-text", "texts.jsonl", random_split),
    }


def made(inputs, dataset):
    known = inspect.signature(MODELS[SECTIONS[inputs]["name"]]).parameters
    return models.create(**SECTIONS[inputs], **{k: v for k, v in model_sizes(dataset).items() if k in known})


def change(folder, arrays=None, **info):
    """Change what a folder says, as someone would who knows how it is made: checksums are mended."""
    for (file, name), tensor in (arrays or {}).items():
        tensors = {key: value.clone() for key, value in load_file(folder / file).items()}
        tensors[name] = tensor(tensors[name]) if callable(tensor) else tensor
        save_file(tensors, folder / file)
    told = read_json(folder / "model.json")
    for key, value in info.items():
        told[key] = {**told[key], **value} if isinstance(value, dict) and key != "files" else value
    if "files" not in info:
        told["files"] = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in told["files"]}
    write_json(folder / "model.json", told)


def refused(folder, *messages):
    with pytest.raises(DataError) as caught:
        open_model(folder)
    line = str(caught.value)
    assert "\n" not in line
    assert str(folder) in line
    for message in messages:
        assert message in line
