"""scikit-learn compatible estimators."""

from songrank.estimators.base import NotFittedError
from songrank.estimators.document_ranker import DocumentRanker
from songrank.estimators.label_ranker import LabelRanker
from songrank.estimators.recommender import Recommender

__all__ = ["DocumentRanker", "LabelRanker", "NotFittedError", "Recommender"]
