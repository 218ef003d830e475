"""Trained models in use: opened from a folder without their data, asked for items, scores or labels, exported."""

from songrank.inference.documents import score_documents
from songrank.inference.export import export_model
from songrank.inference.labels import label, score_labels
from songrank.inference.model_folder import ModelFolder, open_model
from songrank.inference.recommend import recommend

__all__ = ["ModelFolder", "export_model", "label", "open_model", "recommend", "score_documents", "score_labels"]
