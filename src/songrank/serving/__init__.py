"""Inference with trained models: recommendations, document scores, labels, and export; no training data is needed."""

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
