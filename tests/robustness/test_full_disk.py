"""A disk that fills up during a training: the run is recorded as failed, in space that was held for it."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from songrank.data import prepare
from tests.data.small_log import log

INSIDE = """
    import json, os, sys
    from pathlib import Path
    from songrank.core.errors import UserError
    from songrank.training import Run
    from songrank.training.config.recipe import Recipe

    disk = Path(sys.argv[1])

    def fill(*_):
        number = 0
        while True:  # other programs take what is left, to the last block
            try:
                handle = os.open(disk / f"other-{number}", os.O_WRONLY | os.O_CREAT)
                number += 1
                while os.write(handle, bytes(4096)):
                    pass
            except OSError:
                break

    few = {"epochs": 2, "learning_rate": 0.01}
    model = {"name": "matrix-factorisation", "dim": 4}
    recipe = {"data": sys.argv[2], "model": model, "device": "cpu", "warm_up": few, "fine_tuning": few}
    run = Run.begin(Recipe.read(recipe), disk / "run", save_every=0.0, observe=fill)
    try:
        run.finish()
    except UserError as error:
        print(json.dumps([str(error), json.loads((disk / "run" / "run.json").read_text()), os.listdir(disk / "run")]))
"""


def on_a_disk(place, size, *words):
    """Run a command in a file system of its own."""
    mount = f'mount -t tmpfs -o size={size} none "$0" && exec "$@"'
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", mount, place, *words],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_a_run_on_a_full_disk_has_failed(tmp_path):
    (place := tmp_path / "disk").mkdir()
    try:
        able = on_a_disk(place, "1m", "true")
    except FileNotFoundError:
        able = None
    if able is None or able.returncode:
        pytest.skip("needs unshare and tmpfs")
    data = prepare("interactions", log(), tmp_path / "data").path
    done = on_a_disk(place, "2m", sys.executable, "-c", textwrap.dedent(INSIDE), place, data)
    assert done.returncode == 0, done.stderr
    error, notes, files = json.loads(done.stdout)
    assert "cannot be written" in error
    assert "No space left on device" in error
    assert (notes["status"], notes["error"]) == ("failed", error)
    assert not [name for name in files if name.startswith(".songrank-new-")]
