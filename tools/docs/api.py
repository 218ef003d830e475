"""What the Python API reference lists: every public name, by the module that people import it from."""

import importlib
import importlib.util

PUBLIC: dict[str, tuple[str, ...]] = {
    "songrank": (),
    "songrank.losses": (),
    "songrank.functional": (),
    "songrank.metrics": (),
    "songrank.models": (),
    "songrank.sampling": (),
    "songrank.data": (),
    "songrank.estimators": (),
    "songrank.training": (),
    "songrank.serving": (),
    "songrank.analysis": (),
    "songrank.integrations": (),
}
"""Public modules, and names besides those of their ``__all__`` that the documentation uses."""

ELSEWHERE: dict[str, dict[str, tuple[str, ...]]] = {
    "songrank.losses": {
        "songrank.losses.memory": ("merge_states",),
        "songrank.losses.registry": ("LOSSES", "register"),
    },
    "songrank.metrics": {"songrank.metrics.comparison": ("Summary", "Difference")},
    "songrank.analysis": {
        "songrank.analysis.report": ("write_report",),
        "songrank.analysis.ensemble": ("make_ensemble",),
        "songrank.analysis.blend": ("blend_runs", "Blended"),
        "songrank.analysis.blend_weights": ("choose_weights", "choose_list_weights", "WeightChoice"),
        "songrank.analysis.finished_runs": ("find_runs", "read_run", "group_runs"),
        "songrank.analysis.method_comparison": ("compare_methods", "MethodComparison"),
        "songrank.analysis.tuning": ("Study",),
    },
    "songrank.training": {
        "songrank.training.optim.storm": ("Storm",),
        "songrank.training.optim.two_points": ("forward_both", "directional"),
    },
    "songrank.data": {"songrank.core.csr": ("CSR",), "songrank.core.errors": ("UserError",)},
    "songrank.models": {"songrank.baselines": ("measure",)},
    "songrank.serving": {
        "songrank.serving.explorer": ("Explorer", "ExplorerServer"),
        "songrank.serving.item_names": ("read_names",),
    },
    "songrank.integrations": {
        "songrank.integrations.trainer_loss": ("TrainerLoss",),
        "songrank.integrations.sentence_transformers": ("RerankingLoss", "RetrievalLoss"),
        "songrank.integrations.transformers": ("MemoryCallback", "ListCollator", "ListLossFunction"),
        "songrank.integrations.lightning": ("SlateDataModule",),
    },
}
"""Names that the documentation uses from modules without a page of their own."""

WITH_INHERITED = ("songrank.estimators",)
"""Modules whose classes are documented with the methods of their base classes, such as ``save``."""


def names(module: str) -> list[str]:
    """The public names of a module, submodules left out."""
    found = importlib.import_module(module)
    listed = [*getattr(found, "__all__", ()), *PUBLIC[module]]
    return [name for name in listed if not _is_module(found, name)]


def _is_module(module: object, name: str) -> bool:
    return type(getattr(module, name)).__name__ == "module"


def pages() -> dict[str, str]:
    """The text of each page: the module's docstring, then each name under its own heading."""
    return {module: page(module) for module in PUBLIC}


def page(module: str) -> str:
    """The page of one module."""
    parts = [f"# {module}", f"::: {module}\n    options:\n        members: []\n        show_root_heading: false"]
    options = "\n    options:\n        inherited_members: true" if module in WITH_INHERITED else ""
    parts += [f"::: {place(module, name)}{options}" for name in names(module) if home(module, name) == module]
    borrowed = [name for name in names(module) if home(module, name) != module]
    if borrowed:
        links = [f"[`{name}`]({home(module, name).removeprefix('songrank.')}.md)" for name in borrowed]
        parts.append("Imported here, documented with their own module: " + ", ".join(links) + ".")
    for other, found in ELSEWHERE.get(module, {}).items():
        parts.append(f"## From `{other}`")
        parts += [f"::: {other}.{name}\n    options:\n        heading_level: 3" for name in found]
    return "\n\n".join(parts) + "\n"


def place(module: str, name: str) -> str:
    """Where the reference finds a public name; a submodule of the same name would hide it.

    >>> place("songrank.functional", "ranks"), place("songrank.losses", "SONG")
    ('songrank.functional.ranks.ranks', 'songrank.losses.SONG')
    """
    if not hasattr(importlib.import_module(module), "__path__") or importlib.util.find_spec(f"{module}.{name}") is None:
        return f"{module}.{name}"
    return f"{getattr(importlib.import_module(module), name).__module__}.{name}"


def home(module: str, name: str) -> str:
    """The public module that documents a name: its own, except for what ``songrank`` passes on."""
    if module != "songrank":
        return module
    wanted = getattr(importlib.import_module(module), name)
    for other in PUBLIC:
        if other != module and getattr(importlib.import_module(other), name, None) is wanted:
            return other
    return module
