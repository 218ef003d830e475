"""STORM: momentum from gradients at two points (Cutkosky & Orabona, NeurIPS 2019; last part of the paper)."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from songrank import kernels
from songrank.core.checks import check_number, fail
from songrank.losses.schedules import Schedule
from songrank.training.optim.base import TrainingOptimiser
from songrank.training.optim.two_points import directional, forward_both


class Storm(TrainingOptimiser):
    r"""m_t = (1 − γ)(m_{t−1} + κ(G(w_t) − G(w_{t−1}))) + γG(w_t),   w_{t+1} = w_t − lr · m_t;   m_1 = G(w_1).

    κ = 1 is STORM, (1 − γ)(m_{t−1} − G(w_{t−1})) + G(w_t); κ = 0 is ordinary momentum, which needs only one gradient.

    Both gradients are of the same slate. w_{t−1} is kept as one copy per parameter, a leaf of its own: pass
    :meth:`previous` to ``songrank.training.optim.two_points.forward_both``, and one ``backward()`` of
    ``FasterSONG(…)(scores, slate, before=…)`` leaves G(w_t) with the parameters and G(w_{t−1}) with their copies.

    Weight decay adds λw to each gradient at its own point, so both belong to the same objective. A step reads nothing
    back from the device, so it can be captured as a CUDA graph; pass ``lr`` and ``gamma`` as tensors if they change.

    Args:
        params: parameters, or groups of them.
        lr: learning rate (the theorem's α, with a schedule).
        gamma: γ_m in (0, 1]; 1 is plain SGD. A tensor is not copied.
        adam: divide m by √v̂ + eps, with v the moving average of C² and v̂ its bias-corrected value, as Adam does. m is
            the moving average of C_t = G(w_t) + κ(1 − γ)/γ · (G(w_t) − G(w_{t−1})), and replaces Adam's first moment
            (Yuan et al., "MARS", 2024). No theorem of the paper covers it.
        correction: κ in [0, 1].
        beta2: β₂ of v.
        eps: added to √v̂.
        weight_decay: λ.
        schedule: uses lr · η_t and γ_t (with π = 1) in place of lr and gamma; t is the number of steps.

    >>> w = nn.Parameter(torch.tensor([2.0]))
    >>> optimiser = Storm([w], lr=0.1, gamma=0.5)
    >>> for slope in (1.0, 3.0):                                     # two noisy draws of slope · w²
    ...     optimiser.zero_grad()
    ...     (slope * (w**2 + optimiser.state[w]["previous"] ** 2)).sum().backward()
    ...     optimiser.step()
    >>> optimiser.state[w]["previous"].data, optimiser.state[w]["momentum"]      # ½(4 − 12) + 9.6
    (tensor([1.6000]), tensor([5.6000]))
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float | Tensor = 1e-3,
        gamma: float | Tensor = 0.1,
        *,
        adam: bool = False,
        correction: float = 1.0,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        schedule: Schedule | None = None,
    ) -> None:
        if not isinstance(lr, Tensor):
            check_number("lr", lr, 0.0)
        if not isinstance(gamma, Tensor):
            check_number("gamma", gamma, 0.0, 1.0, low_open=True)
        check_number("beta2", beta2, 0.0, 1.0, high_open=True)
        check_number("eps", eps, 0.0, low_open=True)
        check_number("weight_decay", weight_decay, 0.0)
        check_number("correction", correction, 0.0, 1.0)
        self.schedule = schedule
        options = {"lr": lr, "gamma": gamma, "correction": correction, "beta2": beta2, "eps": eps}
        super().__init__(params, {**options, "weight_decay": weight_decay, "adam": bool(adam)})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters; w_{t−1} of each starts as its present value."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for weight in group["params"]:
            state = self.state[weight]
            state["step"] = torch.zeros((), device=weight.device)
            state["previous"] = weight.detach().clone(memory_format=torch.preserve_format).requires_grad_()
            state["momentum"] = torch.zeros_like(weight, requires_grad=False)
            if group["adam"]:
                state["square"] = torch.zeros_like(weight, requires_grad=False)

    def previous(self, model: nn.Module) -> dict[str, Tensor]:
        """w_{t−1} of the model's parameters that are trained here, by name."""
        named = model.named_parameters()
        return {name: self.state[weight]["previous"] for name, weight in named if weight in self.state}

    def last_step(self, model: nn.Module) -> dict[str, Tensor]:
        """w_t − w_{t−1} of the same parameters."""
        before = self.previous(model)
        return {name: (model.get_parameter(name) - weight).detach() for name, weight in before.items()}

    def scores(
        self, model: nn.Module, call: Callable[[nn.Module], Tensor], points: int
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The scores, with those at the previous weights (two points) or their change since then (one point)."""
        if points == 2:
            now, before = forward_both(model, self.previous(model), call)
            return now, {"before": before}
        now, change = directional(model, self.last_step(model), call)
        return now, {"change": change}

    def leaves(self, parameter: Tensor) -> Sequence[Tensor]:
        """The parameter, and its previous value."""
        return parameter, self.state[parameter]["previous"]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget both gradients."""
        super().zero_grad(set_to_none)
        for state in self.state.values():
            copy = state["previous"]
            if set_to_none or copy.grad is None:
                copy.grad = None
            else:
                copy.grad.zero_()

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step; a parameter without a gradient does not change."""
        if closure is not None:
            fail("closure", "given", "none: both gradients are computed before the step")
        for group in self.param_groups:
            for weight in group["params"]:
                state = self.state[weight]
                if weight.grad is None:
                    state["previous"].copy_(weight)
                    continue
                if group["correction"] and state["previous"].grad is None:
                    fail("previous.grad", None, "G(w_{t−1}): pass the scores at previous(model) to the loss as before=")
                for gradient in (weight.grad, state["previous"].grad):
                    if gradient is not None and gradient.is_sparse:
                        fail("grad", "sparse", "dense gradients")
                self._move(weight, state, group)

    def _move(self, weight: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> None:
        now, then = weight.grad, state["previous"].grad if group["correction"] else None
        assert now is not None
        state["step"].add_(1.0)
        rate, gamma = group["lr"], group["gamma"]
        if self._by_kernel(weight, now, then, rate, gamma):
            from songrank.kernels.storm_step import storm_step

            options = {name: group[name] for name in ("correction", "beta2", "eps")}
            plan = self.schedule
            options |= {"decay": group["weight_decay"], "schedule": plan and (plan.start, plan.c0, plan.a)}
            storm_step(weight, state, now, then, rate=rate, gamma=gamma, **options)
            return
        if group["weight_decay"]:
            now = now.add(weight, alpha=group["weight_decay"])
            then = None if then is None else then.add(state["previous"], alpha=group["weight_decay"])
        t = state["step"].double()
        if self.schedule is not None:
            rate, gamma = rate * self.schedule.eta(t), self.schedule.gamma(t)
        kept = (1.0 - gamma) * (t > 1.0).to(t.dtype)
        corrected = now
        if then is not None:
            corrected = now + (now - then) * (group["correction"] * kept / (1.0 - kept))
        momentum = state["momentum"].mul_(kept).add_(corrected * (1.0 - kept))
        state["previous"].copy_(weight)
        if not group["adam"]:
            weight.sub_(momentum * rate)
            return
        state["square"].mul_(group["beta2"]).addcmul_(corrected, corrected, value=1.0 - group["beta2"])
        root = (state["square"] / (1.0 - group["beta2"] ** t)).sqrt_()
        weight.addcdiv_(momentum, root.add_(group["eps"]).div_(-rate))

    @staticmethod
    def _by_kernel(weight: Tensor, now: Tensor, then: Tensor | None, *numbers: float | Tensor) -> bool:
        parts = [part for part in (weight, now, then) if part is not None]
        simple = all(part.dtype == torch.float32 and part.is_contiguous() for part in parts)
        return simple and kernels.usable(weight) and not any(isinstance(number, Tensor) for number in numbers)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a saved state into the tensors that :meth:`previous` returned."""
        copies = {weight: state["previous"] for weight, state in self.state.items()}
        super().load_state_dict(state_dict)
        with torch.no_grad():
            for weight, copy in copies.items():
                state = {name: value.detach().clone() for name, value in self.state[weight].items()}
                copy.copy_(state["previous"])
                self.state[weight] = {**state, "previous": copy}
