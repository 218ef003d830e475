"""``songrank explore`` as a real process, and what it rejects."""

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from tests.cli.outcomes import refused


@pytest.fixture
def run(songrank, ratings, tmp_path):
    assert songrank("train", ratings, "-o", tmp_path / "run", "-q").returncode == 0
    return tmp_path / "run"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_the_page_is_served_until_it_is_stopped(run, number, code):
    command = [sys.executable, "-m", "songrank.cli", "explore", str(run), "--device", "cpu"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    try:
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        assert process.stdout.readline() == "press Ctrl-C to stop\n"
        with urllib.request.urlopen(f"{url}start", timeout=20) as response:
            start = json.loads(response.read())
        assert [model["title"] for model in start["models"]] == ["run"]
        process.send_signal(number)
        out, error = process.communicate(timeout=20)
        assert (process.returncode, error) == (code, "")
        assert out == ("stopped\n" if code == 0 else "")
    finally:
        process.kill()


def test_what_cannot_be_shown_is_named(songrank, run, tmp_path):
    refused(songrank("explore", run, run, run), "3 runs are given; expected one or two")
    refused(songrank("explore", run, run), f"{run} is given twice; expected two different runs")
    refused(songrank("explore", run, "--name-column", "x"), "--item-column and --name-column need --names")
    refused(songrank("explore", tmp_path / "nowhere"), "nowhere")
    (tmp_path / "names.csv").write_text("item,title\nnone,No film\n")
    refused(songrank("explore", run, "--names", tmp_path / "names.csv"), "has a name for none of the")
