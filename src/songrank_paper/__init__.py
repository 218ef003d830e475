"""``songrank paper``: reproduction of the paper's tables and figures on the data sets that are available."""

import difflib
from contextlib import suppress
from importlib import import_module

from songrank.core.errors import UserError, shown
from songrank_paper.experiment import Experiment

EXPERIMENTS = {
    "table-stats": "songrank_paper.stats:TableStats",
    "table-ltr": "songrank_paper.tables:TableLtr",
    "table-rs": "songrank_paper.tables:TableRs",
    "table-xml": "songrank_paper.tables:TableXml",
    "summary": "songrank_paper.summary:Summary",
    "fig-convergence": "songrank_paper.convergence:FigConvergence",
    "fig-ablation": "songrank_paper.ablations:FigAblation",
    "fig-gamma": "songrank_paper.ablations:FigGamma",
    "fig-full-items": "songrank_paper.full_items:FigFullItems",
    "fig-theo-prac": "songrank_paper.ablations:FigTheoPrac",
    "fig-bilevel": "songrank_paper.ablations:FigBilevel",
    "fig-faster": "songrank_paper.faster:FigFaster",
    "fig-peers": "songrank_paper.peers:FigPeers",
    "fig-functions": "songrank_paper.functions:FigFunctions",
    "fig-stop-gradient": "songrank_paper.stop_gradient:FigStopGradient",
    "fig-complexity": "songrank_paper.complexity:FigComplexity",
    "ir-benchmark-mf": "songrank_paper.ir_benchmark:IrBenchmarkMF",
    "ir-benchmark-lightgcn": "songrank_paper.ir_benchmark:IrBenchmarkLightGCN",
    "ir-benchmark": "songrank_paper.ir_benchmark:IrBenchmark",
    "theory": "songrank_paper.theory:Theory",
}
"""Experiments by name, in the order of the report; their modules are imported on demand."""


def load_experiment(name: str) -> Experiment:
    """The experiment of this name; a ``UserError`` with the most similar name if there is none.

    >>> load_experiment("fig-function")
    Traceback (most recent call last):
    songrank.core.errors.UserError: unknown result 'fig-function'; did you mean fig-functions?
    """
    if name not in EXPERIMENTS:
        near = difflib.get_close_matches(name, EXPERIMENTS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"expected all or one of {', '.join(EXPERIMENTS)}"
        raise UserError(f"unknown result {shown(name)}; {hint}")
    module, _, kind = EXPERIMENTS[name].partition(":")
    try:
        experiment: Experiment = getattr(import_module(module), kind)()
    except (AttributeError, ModuleNotFoundError) as error:
        if error.name not in (module, kind):
            raise
        raise UserError(
            f"{name} is not part of this installation; `songrank paper` lists the available results"
        ) from None
    return experiment


def load_all() -> dict[str, Experiment]:
    """The installed experiments by name, in the order of the report.

    >>> load_all()["fig-functions"].name
    'fig-functions'
    """
    found = {}
    for name in EXPERIMENTS:
        with suppress(UserError):
            found[name] = load_experiment(name)
    return found
