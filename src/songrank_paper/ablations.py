"""Ablations of SONG and K-SONG: moving average, warm-up, γ, the implicit term, and the bilevel form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from songrank_paper.curve_figures import CurveFigure, Lines
from songrank_paper.experiment import Found
from songrank_paper.methods import Method, Setting
from songrank_paper.protocol import SetProtocol

GAMMAS = (0.1, 0.3, 0.5, 0.7, 1.0)
"""Values of γ₀ in the paper's figure."""
_INSTEAD_OF_ONE = 0.3


class FigAblation(CurveFigure):
    """SONG, SONG with γ = 1, and SONG without warm-up."""

    name = "fig-ablation"
    title = "SONG without moving average (γ = 1), and without warm-up"
    note = (
        "Both variants use the setting chosen for SONG and were not tuned. The variant without warm-up trains for the "
        "same total number of epochs, counted from the start; epochs of the others are counted after warm-up."
    )
    compared = True

    def tuned(self, each: SetProtocol) -> Sequence[Method]:
        """SONG; the variants use its setting."""
        return [each.method("song")]

    def panels(self, each: SetProtocol, found: Found) -> Mapping[str, Lines]:
        """One a set."""
        song, gamma = each.method("song"), moving_gamma(each, found)
        kept = f"loss.gamma={gamma}"
        return {
            each.panel: {
                f"SONG, γ = {gamma}": each.reported(song, found, kept),
                "no moving average, γ = 1": each.reported(song, found, "loss.gamma=1.0"),
                f"no warm-up, γ = {gamma}": each.reported(song, found, kept, *without_warm_up(each)),
            }
        }

    def remarks(self, each: SetProtocol, found: Found) -> list[str]:
        """A remark if slates are complete lists, since the memory is then exact."""
        return whole_lists(each)


def without_warm_up(each: SetProtocol) -> list[str]:
    """Changes that replace epochs of warm-up by epochs of fine-tuning, with learning rate decays at the same time."""
    base = each.recipe.fine_tuning(Setting(("loss=song",)), 0)
    warm, stage = base["warm_up"]["epochs"], base["fine_tuning"]
    decay = ", ".join(f"{int(epoch) + warm}: {factor}" for epoch, factor in stage["decay"].items())
    epochs = warm + stage["epochs"]
    return ["warm_up.epochs=0", f"fine_tuning.epochs={epochs}", f"fine_tuning.decay={{{decay}}}"]


def moving_gamma(each: SetProtocol, found: Found) -> float:
    """The γ chosen for SONG; if that is 1, which means no averaging, the paper's value for lists, 0.3."""
    setting = each.chosen(each.method("song"), found)
    changes = setting.changes if setting is not None else ()
    gammas = [float(change.partition("=")[2]) for change in changes if change.startswith("loss.gamma=")]
    return gammas[0] if gammas and gammas[0] < 1.0 else _INSTEAD_OF_ONE


def whole_lists(each: SetProtocol) -> list[str]:
    """A remark if slates are complete lists."""
    batch = each.recipe.warm_up(0)["batch"]
    if batch["length"] != "all" and batch["irrelevant"] != "all":
        return []
    return [f"{each.name}: slates are complete lists, so γ = 1 only drops the scores of earlier steps."]


class FigGamma(CurveFigure):
    """γ₀ of the moving average in warm-up, and of SONG after the common warm-up."""

    name = "fig-gamma"
    title = "The effect of γ₀: in warm-up (listwise cross-entropy) and in SONG"
    note = "All γ₀ use the learning rate chosen for SONG, or that of the recipe's warm-up."
    tasks = ("recommendation",)

    def tuned(self, each: SetProtocol) -> Sequence[Method]:
        """SONG, for its learning rate."""
        return [each.method("song")]

    def panels(self, each: SetProtocol, found: Found) -> Mapping[str, Lines]:
        """Warm-up and SONG."""
        song, seeds = each.method("song"), each.plan.seeds
        warm_up = {f"γ₀ = {g}": [each.warm_up(seed, f"warm_up.loss.gamma={g}") for seed in seeds] for g in GAMMAS}
        tuned = {f"γ₀ = {g}": each.reported(song, found, f"loss.gamma={g}") for g in GAMMAS}
        return {f"{each.panel}: warm-up": warm_up, f"{each.panel}: SONG": tuned}


def variant(method: Method, title: str, change: str) -> Method:
    """A method with an additional option, tuned with the same budget.

    >>> plain = Method("k-song", "K-SONG", (("loss.k=10",), ("loss.k=20",)))
    >>> variant(plain, "practical", "loss.mode=practical").options
    (('loss.k=10', 'loss.mode=practical'), ('loss.k=20', 'loss.mode=practical'))
    """
    first, second = method.options
    return replace(method, title=title, options=((*first, change), (*second, change)))


class _TwoForms(CurveFigure):
    """K-SONG as in the tables, and with one option changed; each is tuned."""

    plain: str
    changed: str
    change: str
    note = "Each form was tuned with the same budget."
    compared = True

    def tuned(self, each: SetProtocol) -> Sequence[Method]:
        """Both."""
        method = each.method("k-song")
        return [replace(method, title=self.plain), variant(method, self.changed, self.change)]

    def panels(self, each: SetProtocol, found: Found) -> Mapping[str, Lines]:
        """One a set."""
        return {each.panel: {method.title: each.reported(method, found) for method in self.tuned(each)}}


class FigTheoPrac(_TwoForms):
    """K-SONG with the gradient of its selector, eq. (5), and without, eq. (6)."""

    name = "fig-theo-prac"
    title = "Theoretical and practical K-SONG"
    plain, changed, change = "theoretical", "practical", "loss.mode=practical"


class FigBilevel(_TwoForms):
    """K-SONG with the threshold of the lower-level problem, and the earlier form ψ(K − ḡ) of top-K NDCG."""

    name = "fig-bilevel"
    title = "Top-K NDCG: the bilevel form and ψ(K − ḡ)"
    plain, changed, change = "bilevel, ψ(h − λ)", "rank, ψ(K − ḡ)", "loss.form.selection=rank"
