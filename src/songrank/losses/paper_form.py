"""Deviations of the losses from the printed algorithms, in one value; ``form="paper"`` reverts all but one.

A first visit always sets u, s and λ to the slate's own estimates: at the printed u = 0, f′ divides by log₂(0 + 1) = 0.
Constants that the paper leaves open, for example γ and η₀, are separate arguments.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, Self

from songrank.core.checks import check_choice, fail

_CHOICES = {
    "estimator": ("strata", "plain"),
    "offset": ("sqrt", "zero"),
    "selection": ("bilevel", "rank"),
    "implicit": ("slate", "regression", "memory", "memory_before"),
    "threshold_step": ("newton", "gradient"),
    "centre": ("first", "zero"),
    "smoothing": ("softplus", "hinge"),
    "memory": ("msvr", "storm", "moving_average"),
    "earlier": ("corrected", "memory"),
}


@dataclass(frozen=True)
class PaperForm:
    """Deviations of ``KSONG`` from the paper; ``SONG`` has the first three, ``ListwiseCE`` only ``estimator``.

    Args:
        lagged: f and f′ use u from before this visit, u^(t); printed: True.
        estimator: ``"strata"``, unbiased (``functional.strata``); printed: ``"plain"``, the mean over the slate.
        offset: meaning of ``rank_offset=None``: ``"sqrt"``, √N of each list; printed: ``"zero"``.
        selection: ``"bilevel"``, ψ(h_i − λ_q), as printed; or ``"rank"``, ψ(K − N u_i), for comparison.
        implicit: divisor of ∇λ in eq. (5): ``"slate"``, this slate's H, whose ratio is biased towards 0 on samples of
            long lists; ``"regression"``, this slate's cross terms over s from before this visit, plus a broader
            estimate of what is missing to a sum of 1, nearly unbiased with more noise; ``"memory"``, s after this
            visit; printed: ``"memory_before"``, s_t from before it.
        threshold_step: ``"newton"``: λ ← λ − η₀ ∇_λL / s, limited to τ₁ more than the distance to the slate's own
            (K+1)-th largest score, since s can be as small as τ₂; printed: ``"gradient"``: λ ← λ − η₀ ∇_λL.
        centre: centre of the τ₂ term: ``"first"``, each query's first λ, for shift invariance; printed: ``"zero"``.
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
        """The form of Algorithms 1 to 3 and eq. (5)."""
        plain: dict[str, Any] = {"estimator": "plain", "offset": "zero", "centre": "zero", "threshold_step": "gradient"}
        return cls(**{**plain, **cls._printed})

    _printed: ClassVar[dict[str, Any]] = {"lagged": True, "implicit": "memory_before"}

    @classmethod
    def read(cls, form: "Literal['paper'] | PaperForm", switches: Collection[str]) -> Self:
        """The form or, for ``"paper"``, the printed one; raises for a deviation that is not in ``switches``."""
        if form == "paper":
            return replace(cls(), **{name: getattr(cls.printed(), name) for name in switches})
        if not isinstance(form, cls):
            fail("form", form, f"'paper' or a {cls.__name__}", TypeError)
        for field in fields(form):
            value = getattr(form, field.name)
            if field.name not in switches and value != field.default:
                fail(f"form.{field.name}", value, f"{field.default!r}, since the option does not apply to this loss")
        return form


@dataclass(frozen=True)
class FasterForm(PaperForm):
    """Deviations of ``FasterKSONG`` from the paper; ``FasterSONG`` has those without λ.

    Other fields are those of :class:`PaperForm`; the defaults of ``implicit`` and ``threshold_step`` are as printed.

    Args:
        lagged: G(w_t) and G(w_{t−1}) both use u and s from before this step, which do not depend on the slate: the
            lowest error in the long run under strong noise, but without noise it misses the change of u
            (docs/experiments/theory.md). Printed: False, u_t and s_t in G(w_t).
        earlier: u and s in G(w_{t−1}), unless lagged: ``"corrected"``, u_t − (ĝ(w_t) − ĝ(w_{t−1})), with which the
            momentum is gradient descent without noise; printed: ``"memory"``, u_{t−1}; the differences summed by the
            momentum are then biased, by several times the gradient.
        memory: β: printed: ``"msvr"``; ``"storm"``, 1 − γ, stable at usual learning rates; ``"moving_average"``, 0.
            The last two allow γ = 1.

    >>> FasterForm().earlier, FasterForm.printed().earlier
    ('corrected', 'memory')
    """

    implicit: str = "memory"
    threshold_step: str = "gradient"
    memory: str = "storm"
    earlier: str = "corrected"

    _printed: ClassVar[dict[str, Any]] = {"memory": "msvr", "earlier": "memory"}


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
    """Read loss options of a version 0.1.dev recipe: move former top-level keys to ``form`` and ``threshold``.

    ``known`` lists the options of the loss; other keys are unchanged.

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
