"""What songrank does in a forked process: everything if nothing was done before, else one line instead of a hang."""

import multiprocessing
import os
import select
import subprocess
import sys

import numpy as np
import pytest
import torch

from songrank import DocumentRanker, Recommender, Relevance, SlateSampler
from songrank.core.forks import check_not_forked
from songrank.data import open_dataset, prepare
from songrank.training import Run, load_recipe

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
SHORT = {"warm_up.epochs": 1}
CLICKS = {"user": [n // 6 for n in range(120)], "item": [(n * 7 + n // 6) % 30 for n in range(120)]}
X, Y = np.arange(120.0).reshape(60, 2), np.arange(60) % 3
SECONDS = 30


def recommender():
    return Recommender(model="matrix-factorisation", epochs=1, options={**SHORT, "model.dim": 4}, verbose=0)


def ranker():
    return DocumentRanker(epochs=1, options={**SHORT, "model.hidden": [4]}, verbose=0)


def forked(work):
    """What ``work`` says in a forked process: the message of its error, "done", or "hangs"."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work()
            said = "done"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    try:
        ready, _, _ = select.select([reading], [], [], SECONDS)
        return os.read(reading, 10_000).decode() if ready else "hangs"
    finally:
        os.close(reading)
        os.kill(child, 9)
        os.waitpid(child, 0)


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    """Fitted and saved estimators, a data set and a run, all made in this process."""
    folder = tmp_path_factory.mktemp("used")
    made = {"recommender": recommender().fit(CLICKS), "ranker": ranker().fit(X, Y, group=[10] * 6), "folder": folder}
    made["recommender"].save(folder / "saved")
    prepare("interactions", CLICKS, folder / "data")
    changes = [f"data={folder / 'data'}", "device=cpu", "warm_up.epochs=1", "fine_tuning.epochs=1"]
    made["run"] = Run.begin(load_recipe("recommendation", changes), folder / "run")
    return made


WORK = {
    "fit": lambda used: recommender().fit(CLICKS),
    "partial_fit": lambda used: used["recommender"].partial_fit(CLICKS, epochs=1),
    "recommend": lambda used: used["recommender"].recommend(k=2),
    "predict": lambda used: used["recommender"].predict(CLICKS),
    "evaluate": lambda used: used["recommender"].evaluate(CLICKS),
    "save": lambda used: used["recommender"].save(used["folder"] / "again"),
    "load": lambda used: Recommender.load(used["folder"] / "saved"),
    "fit of documents": lambda used: ranker().fit(X, Y, group=[10] * 6),
    "predict of documents": lambda used: used["ranker"].predict(X, group=[10] * 6),
    "prepare": lambda used: prepare("interactions", CLICKS, used["folder"] / "more"),
    "finish of a run": lambda used: used["run"].finish(),
    "train": lambda used: used["run"].trainer.run(),
}


@pytest.mark.parametrize("name", WORK)
def test_work_after_work_in_the_parent_raises_one_line(used, name):
    said = forked(lambda: WORK[name](used))
    assert said.startswith("UserError: songrank was used before this process was forked"), said
    assert "spawn" in said
    assert "\n" not in said


def test_the_parent_goes_on_after_a_fork(used):
    assert forked(lambda: None) == "done"
    assert len(used["recommender"].recommend([0], k=2)["item"]) == 2


def test_a_process_that_is_forked_first_can_do_everything():
    code = (
        "import os, sys\n"
        "from tests.core.test_forks import CLICKS, recommender\n"
        "if os.fork() == 0:\n"
        "    model = recommender().fit(CLICKS)\n"
        "    os._exit(7 if len(model.recommend([0], k=2)['item']) == 2 else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 7, done.stderr


def test_workers_that_draw_slates_may_be_forked(used):
    """DataLoader workers read and sample; they do none of the work that needs threads."""
    data = open_dataset(used["folder"] / "data")["train"]
    user = torch.repeat_interleave(torch.arange(len(data.offsets) - 1), data.offsets.diff())
    relevance = Relevance.from_pairs(user, data.item.long())

    class Slates(torch.utils.data.IterableDataset):
        def __iter__(self):
            sampler = SlateSampler(relevance, queries_per_batch=5, relevant=2, irrelevant=4)
            return (slate.item for slate in sampler)

    told = {"batch_size": None, "num_workers": 1, "timeout": SECONDS, "multiprocessing_context": "fork"}
    drawn = list(torch.utils.data.DataLoader(Slates(), **told))
    assert len(drawn) == 4  # 20 users, 5 at a time
    assert all(torch.equal(a, b) for a, b in zip(drawn, Slates(), strict=True))


def test_the_check_is_about_the_process_that_worked_first():
    check_not_forked()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(check_not_forked) is None
    assert forked(check_not_forked).startswith("UserError")
