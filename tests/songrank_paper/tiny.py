"""An experiment of small real work, for the tests of cells and of the command."""

import os
import threading

import torch

from songrank import SONG, Relevance, SlateSampler
from songrank.core.errors import UserError
from songrank.models import MatrixFactorisation
from songrank_paper.experiment import Cell, Experiment, Findings, Table


def train(folder, seed, epochs):
    """Train a small model; what comes out depends on the options alone."""
    (folder / "pid").write_text(str(os.getpid()))
    torch.manual_seed(seed)
    relevance = Relevance.from_pairs([0, 0, 1, 1, 2], [1, 2, 3, 4, 5], num_items=30)
    model, loss = MatrixFactorisation(3, 30, dim=8), SONG(relevance.num_pairs)
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    sampler = SlateSampler(relevance, 3, 2, 5, seed=seed)
    for _ in range(epochs):
        for slate in sampler:
            optimiser.zero_grad()
            loss(model(slate.query, slate.item), slate).backward()
            optimiser.step()
    return {"norm": sum(float(w.detach().double().square().sum()) for w in model.parameters())}


def shift(folder, by):
    """What a second round does with the choice of the first."""
    return {"norm": by, "pair": (1, float("nan"))}


def fail(folder, message):
    raise UserError(message)


def vanish(folder):
    os._exit(9)


def stall(folder):
    (folder / "pid").write_text(str(os.getpid()))
    threading.Event().wait(600)


def wait_for(folder, key):
    """Wait for another cell, for a minute at most."""
    file, pause = folder.parent / key / "result.json", threading.Event()
    return {"seen": any(file.exists() or pause.wait(0.01) for _ in range(6000))}


def cell(seed, epochs=20):
    return Cell(f"seed {seed}", "tests.songrank_paper.tiny:train", {"seed": seed, "epochs": epochs})


class Tiny(Experiment):
    """Some seeds, and one cell more that depends on the best of them."""

    name = "tiny"
    title = "A small experiment"
    epochs = 20

    def cells(self, plan, found):
        first = [cell(seed, self.epochs) for seed in plan.seeds]
        if any(one.key not in found for one in first):
            return first
        best = max(found[one.key]["norm"] for one in first)
        return [*first, Cell("best", "tests.songrank_paper.tiny:shift", {"by": best})]

    def show(self, plan, found):
        norms = [found[one.key]["norm"] for one in self.cells(plan, found)]
        return Findings([f"{len(norms)} norms"], {"norms": Table("Norms", ["norm"], [[norm] for norm in norms])})


class Long(Tiny):
    """The same, of cells that take some tenths of a second each."""

    name = "long"
    epochs = 80


class Partial(Long):
    """The same, which shows results so far."""

    partial = True

    def show(self, plan, found):
        return Findings([f"{len(found)} norms so far"])
