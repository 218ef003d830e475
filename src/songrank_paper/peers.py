"""SONG and K-SONG compared with other libraries: convergence, and seconds per epoch (paper: TensorFlow Ranking)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from songrank_paper.curves import Curve, curve_table, diverged_remarks, draw_curves
from songrank_paper.experiment import Cell, Experiment, Findings, Found, Plan, Table
from songrank_paper.methods import Setting
from songrank_paper.peer_losses import LISTNET
from songrank_paper.protocol import SetProtocol, Training, protocols, waiting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WORK = "songrank_paper.peer_runs"
_TF_RANKING = {  # with the definitions and the defaults of its losses
    "ListNet": Setting((f"loss={LISTNET}",)),
    "ListMLE": Setting(("loss=listmle",)),
    "ApproxNDCG": Setting(("loss=approx-ndcg", "loss.temperature=0.1")),
    "Gumbel-ApproxNDCG": Setting(("loss=gumbel-approx-ndcg", "loss.temperature=0.1")),
}
_OWN_WORK = {"ListMLE": "listmle"}
"""Losses that songrank does not have: the suffix of their functions in ``peer_runs``."""
_LIBAUC = "SONG of libauc"
_EPOCHS = {"movielens-20m": 100}
"""Epochs after the warm-up in the paper's comparison, by recipe; in its tables they are 120. Others: as in tables."""
_VALUE = "validation NDCG@5"


class FigPeers(Experiment):
    """The comparison of the paper: one learning rate, no tuning; SONG and K-SONG with warm-up, the others without.

    Args:
        changes: last changes of the recipe, in the notation of ``songrank train``.
    """

    name = "fig-peers"
    title = "Convergence and seconds per epoch: SONG and K-SONG, losses of TensorFlow Ranking, libauc"

    def __init__(self, changes: Sequence[str] = ()) -> None:
        self.changes = changes

    def _set(self, plan: Plan) -> SetProtocol:
        return protocols(plan, ["recommendation"], self.changes, most=1)[0]

    def cells(self, plan: Plan, found: Found) -> Sequence[Cell]:
        """Runs of all seeds, and timed epochs of each loss."""
        each = self._set(plan)
        runs = [one for some in _runs(each).values() for one in some]
        return waiting([*runs, *_timings(each).values()], found)

    def show(self, plan: Plan, found: Found) -> Findings:
        """Curves over all epochs including warm-up, and bars of seconds."""
        each = self._set(plan)
        curves = {each.panel: {label: _curves(some, found) for label, some in _runs(each).items()}}
        timed = {label: found[one.cell.key] for label, one in _timings(each).items()}
        seconds = {label: one["seconds"] for label, one in timed.items() if "diverged" not in one}
        rows = [[label, round(value, 4), _share(value, seconds.get("SONG"))] for label, value in seconds.items()]
        results = {label: [found[one.cell.key] for one in some] for label, some in _runs(each).items()}
        return Findings(
            [
                *_remarks(each),
                *diverged_remarks(each.name, results),
                *(f"{label} diverged within the timed epochs." for label in timed if label not in seconds),
            ],
            {
                "curves": curve_table("Curves", curves, _VALUE),
                "seconds": Table("Median seconds per epoch", ["loss", "seconds", "relative to SONG"], rows),
            },
            {"curves": draw_curves(curves, value=_VALUE, epochs="epochs including warm-up"), "seconds": _bars(seconds)},
        )


def _remarks(each: SetProtocol) -> list[str]:
    rate = each.recipe.warm_up(0)["warm_up"]["learning_rate"]
    said = [
        f"All losses train the same model in the same loop with a learning rate of {rate:g}; none was tuned. SONG and "
        "K-SONG start with the warm-up, the others do not; the total number of epochs is the same.",
        "TensorFlow Ranking itself was not run: its four losses, with its definitions and defaults, are implemented "
        "here (ListNet: cross-entropy with target y/Σy; ListMLE: ties in random order). This compares losses, not "
        "libraries.",
        "Seconds exclude evaluation, one run at a time; other work on the machine affects them.",
    ]
    if not find_spec("libauc"):
        return [*said, "libauc was skipped, because it is not installed."]
    few = _libauc_relevant(each)
    if few < 2:
        return [
            *said,
            "libauc was skipped: it needs equal numbers of relevant items per user, and some users have one.",
        ]
    return [
        *said,
        f"{_LIBAUC} is its loss in our training loop, after the same warm-up, with {few} relevant items per user.",
    ]


def _constant(each: SetProtocol) -> list[str]:
    """A constant learning rate, and the number of epochs after the warm-up."""
    rate = each.recipe.warm_up(0)["warm_up"]["learning_rate"]
    rates = [f"fine_tuning.learning_rate={rate}", "fine_tuning.decay={}", "fine_tuning.reset_head=false"]
    return [*rates, f"fine_tuning.epochs={_epochs(each)[1]}"]


def _epochs(each: SetProtocol) -> tuple[int, int]:
    """Epochs of the warm-up and after it."""
    base = each.recipe.fine_tuning(Setting(("loss=song",)), 0)
    after = base["fine_tuning"]["epochs"]
    return base["warm_up"]["epochs"], min(after, _EPOCHS.get(each.recipe.source, after))


def _ours(each: SetProtocol) -> dict[str, Setting]:
    return {each.method(name).title: each.method(name).settings(1)[0] for name in ("song", "k-song")}


def _libauc_relevant(each: SetProtocol) -> int:
    """The number of relevant items per slate that every user has."""
    counts = each.dataset.relevance("train").num_relevant
    return min(int(each.recipe.warm_up(0)["batch"]["relevant"]), int(counts[counts > 0].min()))


def _runs(each: SetProtocol) -> dict[str, list[Training]]:
    alone = [*_constant(each), "warm_up.epochs=0", f"fine_tuning.epochs={sum(_epochs(each))}"]
    seeds, only = each.plan.seeds, ["validation"]
    runs = {
        label: [each.run(setting, seed, *_constant(each), splits=only, called=f"{label}, peers") for seed in seeds]
        for label, setting in _ours(each).items()
    }
    if find_spec("libauc") and _libauc_relevant(each) > 1:
        runs[_LIBAUC] = [_libauc(each, seed) for seed in seeds]
    return runs | {
        label: [
            each.run(setting, seed, *alone, splits=only, work=_work(label, "train"), called=f"{label} alone")
            for seed in seeds
        ]
        for label, setting in _TF_RANKING.items()
    }


def _work(label: str, what: str) -> str:
    """The function that trains a loss, or times it."""
    if label in _OWN_WORK:
        return f"{_WORK}:{what}_{_OWN_WORK[label]}"
    return f"{_WORK}:time_epochs" if what == "time" else "songrank_paper.runs:train"


def _libauc(each: SetProtocol, seed: int) -> Training:
    few = f"batch.relevant={_libauc_relevant(each)}"
    song = _ours(each)["SONG"]
    changes = (*_constant(each), few)
    return each.run(song, seed, *changes, splits=["validation"], work=f"{_WORK}:train_libauc", called=_LIBAUC)


def _timings(each: SetProtocol) -> dict[str, Training]:
    settings = {**_ours(each), **_TF_RANKING}
    timed = {
        label: each.by_the_clock(label, setting, *_constant(each), work=_work(label, "time"))
        for label, setting in settings.items()
    }
    if find_spec("libauc") and (few := _libauc_relevant(each)) > 1:
        changes = (*_constant(each), f"batch.relevant={few}")
        timed[_LIBAUC] = each.by_the_clock(_LIBAUC, settings["SONG"], *changes, work=f"{_WORK}:time_libauc")
    return timed


def _curves(trainings: Iterable[Training], found: Found) -> list[Curve]:
    """Curves with epochs counted from the start of warm-up."""
    curves: list[Curve] = []
    for training in trainings:
        result = found[training.cell.key]
        if "diverged" in result:
            continue
        before = [] if training.after is None else result["warm_up"]
        first = before[-1][0] if before else 0
        curves.append([*before, *([first + epoch, value] for epoch, value in result["curve"])])
    return curves


def _share(seconds: float, of: float | None) -> float | None:
    return None if of is None else round(seconds / of, 2)


def _bars(seconds: Mapping[str, float]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.4, 0.6 + 0.4 * len(seconds)), layout="constrained")
    place = figure.subplots()
    bars = place.barh(list(seconds), list(seconds.values()), color="0.6", edgecolor="0.2")
    place.bar_label(bars, fmt="%.3g", padding=3)
    place.set(xlabel="seconds per epoch", xlim=(0, 1.2 * max(seconds.values(), default=1.0)))
    place.invert_yaxis()
    return figure
