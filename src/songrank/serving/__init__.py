"""Inference with trained models: recommendations, document scores, labels, and export; no training data is needed."""

from typing import TYPE_CHECKING

from songrank.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from songrank.models.model_folder import ModelFolder
    from songrank.serving.batch_predictor import BatchPredictor
    from songrank.serving.documents import score_documents
    from songrank.serving.export import export_model
    from songrank.serving.labels import label, score_labels
    from songrank.serving.open import open_model
    from songrank.serving.recommendations import recommend, recommend_after
    from songrank.serving.similar import similar_items, similar_users

__all__ = [
    "BatchPredictor",
    "ModelFolder",
    "export_model",
    "label",
    "open_model",
    "recommend",
    "recommend_after",
    "score_documents",
    "score_labels",
    "similar_items",
    "similar_users",
]

_HOMES = {
    "BatchPredictor": ".batch_predictor",
    "ModelFolder": "songrank.models.model_folder",
    "export_model": ".export",
    "open_model": ".open",
    "score_documents": ".documents",
    **dict.fromkeys(("label", "score_labels"), ".labels"),
    **dict.fromkeys(("recommend", "recommend_after"), ".recommendations"),
    **dict.fromkeys(("similar_items", "similar_users"), ".similar"),
}
__getattr__ = lazy_names(__name__, _HOMES)
