"""Fixtures that tests of several modules share."""

import shutil

import pytest
import torch

from songrank.data import open_dataset, prepare
from songrank.training.trained_model import write_model
from tests.models.small_folders import SECTIONS, made, sources


@pytest.fixture(scope="module")
def models_written(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    for inputs, (kind, file, options) in sources(place).items():
        prepare(kind, place / file, place / f"data-{inputs}", **options)
        dataset = open_dataset(place / f"data-{inputs}")
        torch.manual_seed(0)
        write_model(place / inputs, made(inputs, dataset), SECTIONS[inputs], dataset)
    return place


@pytest.fixture
def folder(request, models_written, tmp_path):
    """A copy to damage, of the model that a test names."""
    inputs = getattr(request, "param", "ids")
    return shutil.copytree(models_written / inputs, tmp_path / inputs)
