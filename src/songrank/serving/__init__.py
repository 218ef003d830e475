"""Trained models in use: opened from a folder without their data, asked for items, scores or labels, exported."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from songrank.models.model_folder import ModelFolder as ModelFolder
    from songrank.serving.documents import score_documents as score_documents
    from songrank.serving.export import export_model as export_model
    from songrank.serving.labels import label as label
    from songrank.serving.labels import score_labels as score_labels
    from songrank.serving.open import open_model as open_model
    from songrank.serving.recommendations import recommend as recommend
    from songrank.serving.recommendations import recommend_after as recommend_after

_HOMES = {
    "ModelFolder": "models.model_folder",
    "export_model": "serving.export",
    "label": "serving.labels",
    "open_model": "serving.open",
    "recommend": "serving.recommendations",
    "recommend_after": "serving.recommendations",
    "score_documents": "serving.documents",
    "score_labels": "serving.labels",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import on first use: each needs only a part of what the others read new input with."""
    if name in _HOMES:
        return getattr(import_module(f"songrank.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
