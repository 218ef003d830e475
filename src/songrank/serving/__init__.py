"""Trained models in use: opened from a folder without their data, asked for items, scores or labels, exported."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from songrank.serving.documents import score_documents as score_documents
    from songrank.serving.export import export_model as export_model
    from songrank.serving.items import recommend as recommend
    from songrank.serving.items import recommend_after as recommend_after
    from songrank.serving.labels import label as label
    from songrank.serving.labels import score_labels as score_labels
    from songrank.serving.model_folder import ModelFolder as ModelFolder
    from songrank.serving.model_folder import open_model as open_model

_HOMES = {
    "ModelFolder": "model_folder",
    "export_model": "export",
    "label": "labels",
    "open_model": "model_folder",
    "recommend": "items",
    "recommend_after": "items",
    "score_documents": "documents",
    "score_labels": "labels",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import what is asked for: training needs the folder alone, and not the tables that new input is read with."""
    if name in _HOMES:
        return getattr(import_module(f"songrank.serving.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
