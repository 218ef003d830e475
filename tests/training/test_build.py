"""Building a trainer: which errors become those of the user."""

import pytest

from songrank.core.processes import LostProcessError
from songrank.data import prepare
from songrank.training import build
from songrank.training.config.recipe_files import load_recipe


def test_a_lost_process_keeps_its_exit_code(tmp_path, monkeypatch):
    data = prepare("synthetic", None, tmp_path / "set", queries=20, items=30, pairs=100)

    def lost(*_, **__):
        raise LostProcessError("another process has ended")

    monkeypatch.setattr(build, "adapter_for", lost)
    with pytest.raises(LostProcessError) as told:
        build.make_trainer(load_recipe("recommendation", [f"data={data.path}", "device=cpu"]), data)
    assert told.value.exit_code == 1
