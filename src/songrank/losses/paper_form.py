"""Where the losses depart from the algorithms as the paper prints them: one value, and ``form="paper"`` to undo it all.

Not undone: a first visit sets u, s and λ to the slate's own estimates. The printed u = 0 has no f′, which divides by
log₂(0 + 1). Numbers that the paper leaves open, such as γ and η₀, are arguments of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, Self

from songrank.core.checks import check_choice, fail

_CHOICES = {
    "estimator": ("strata", "plain"),
    "offset": ("sqrt", "zero"),
    "selection": ("bilevel", "rank"),
    "implicit": ("slate", "memory", "memory_before"),
    "threshold_step": ("newton", "gradient"),
    "centre": ("first", "zero"),
    "smoothing": ("softplus", "hinge"),
    "memory": ("msvr", "storm", "moving_average"),
}


@dataclass(frozen=True)
class PaperForm:
    """The switches of ``SONG`` and ``KSONG``; ``ListwiseCE`` has ``estimator``, ``SONG`` the first three.

    Args:
        lagged: f and f′ take the u from before this visit, u^(t); printed: True.
        estimator: ``"strata"``, unbiased (``functional.strata``); printed: ``"plain"``, the mean over the slate.
        offset: what ``rank_offset=None`` stands for: ``"sqrt"`` for √N of each list; printed: ``"zero"``.
        selection: ``"bilevel"``, ψ(h_i − λ_q), as printed; or ``"rank"``, ψ(K − N u_i), the form it is compared with.
        implicit: what ∇λ is divided by in eq. (5): ``"slate"``, this slate's H; ``"memory"``, s after this visit;
            printed: ``"memory_before"``, s_t from before it.
        threshold_step: ``"newton"``: λ ← λ − η₀ ∇_λL / s, by at most τ₁ more than to the slate's own (K+1)-th largest
            score, since s can be as small as τ₂; printed: ``"gradient"``: λ ← λ − η₀ ∇_λL.
        centre: of τ₂'s term: ``"first"``, each query's first λ, so that shifting all scores changes nothing; printed:
            ``"zero"``.
        smoothing: ``"softplus"`` (φ), as printed, or ``"hinge"`` (κ of the appendix).

    >>> PaperForm.printed().implicit, PaperForm(lagged=True).estimator
    ('memory_before', 'strata')

    """

    lagged: bool = False
    estimator: str = "strata"
    offset: str = "sqrt"
    selection: str = "bilevel"
    implicit: str = "slate"
    threshold_step: str = "newton"
    centre: str = "first"
    smoothing: str = "softplus"

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if name in self.__dataclass_fields__ and getattr(self, name) not in choices:
                check_choice(name, getattr(self, name), choices)

    @classmethod
    def printed(cls) -> Self:
        """All switches as Algorithms 1 to 3 and eq. (5) have them."""
        plain: dict[str, Any] = {"estimator": "plain", "offset": "zero", "centre": "zero", "threshold_step": "gradient"}
        return cls(**{**plain, **cls._printed})

    _printed: ClassVar[dict[str, Any]] = {"lagged": True, "implicit": "memory_before"}

    @classmethod
    def read(cls, form: Literal["paper"] | PaperForm, switches: Collection[str]) -> Self:
        """The form itself or, for ``"paper"``, the printed one, for a loss that has these switches."""
        if form == "paper":
            return replace(cls(), **{name: getattr(cls.printed(), name) for name in switches})
        if not isinstance(form, cls):
            fail("form", form, f"'paper' or a {cls.__name__}", TypeError)
        for field in fields(form):
            value = getattr(form, field.name)
            if field.name not in switches and value != field.default:
                fail(f"form.{field.name}", value, f"{field.default!r}, as this loss has no such switch")
        return form


@dataclass(frozen=True)
class FasterForm(PaperForm):
    """The switches of ``FasterKSONG`` and, less those of λ, ``FasterSONG``.

    Args:
        lagged: take both G(w_t) and G(w_{t−1}) with the u and s from before this step, which do not depend on the
            slate. Printed: False, with u_t and s_t in one of them. Their difference is then no unbiased estimate of a
            change, and the momentum that sums these differences up is off by several times the gradient
            (docs/theory.md).
        memory: β: printed: ``"msvr"``; ``"storm"``, 1 − γ, which stays stable at usual learning rates; or
            ``"moving_average"``, 0. With the last two γ may be 1.
        implicit: ``"memory"``, as printed.
        threshold_step: ``"gradient"``, as printed.
        estimator, offset, centre, smoothing: as for :class:`PaperForm`.

    >>> FasterForm(), FasterForm.printed().memory
    (FasterForm(lagged=True, estimator='strata', offset='sqrt', selection='bilevel', implicit='memory', \
threshold_step='gradient', centre='first', smoothing='softplus', memory='storm'), 'msvr')

    """

    lagged: bool = True
    implicit: str = "memory"
    threshold_step: str = "gradient"
    memory: str = "storm"

    _printed: ClassVar[dict[str, Any]] = {"lagged": False, "memory": "msvr"}


SHIPPED = PaperForm()
FASTER_SHIPPED = FasterForm()
_FORMER = {
    **{name: ("form", name) for name in ("lagged", "estimator", "implicit", "threshold_step", "centre", "smoothing")},
    "memory": ("form", "memory"),
    "threshold_rate": ("threshold", "rate"),
    "threshold_gamma": ("threshold", "gamma"),
    **{name: ("threshold", name) for name in ("epsilon", "tau1", "tau2")},
}


def read_former_options(options: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The options of a loss in a recipe, those that used to stand by themselves moved into ``form`` and ``threshold``.

    Runs of version 0.1.dev wrote ``implicit: slate`` and ``tau1: 0.1`` where ``form: {implicit: slate}`` and
    ``threshold: {tau1: 0.1}`` stand now. Nothing else is changed; ``known`` names the options that the loss has.

    >>> read_former_options({"form": "rank", "tau1": 0.3, "gamma": 0.1}, ["form", "threshold", "gamma"])
    {'gamma': 0.1, 'form': {'selection': 'rank'}, 'threshold': {'tau1': 0.3}}
    """
    found = {name: value for name, value in options.items() if name in known or name not in _FORMER}
    if found.get("form") in _CHOICES["selection"]:
        found["form"] = {"selection": found.pop("form")}
    for name in [name for name in options if name not in found]:
        section, inner = _FORMER[name]
        if section in known and isinstance(found.setdefault(section, {}), dict):
            found[section] = {**found[section], inner: options[name]}
        else:
            found[name] = options[name]
    return found
