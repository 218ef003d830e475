"""Exact ranking metrics: of lists (:mod:`songrank.metrics.lists`) and of whole catalogues.

>>> import torch
>>> from songrank import Relevance
>>> from songrank.metrics import evaluate_catalogue, evaluate_lists, ndcg
>>> scores, labels = torch.tensor([[0.3, 0.2, 0.1]]), torch.tensor([[0.0, 1.0, 2.0]])
>>> ndcg(scores, labels, k=2)                                                     # one metric
tensor(0.1738, dtype=torch.float64)
>>> evaluate_lists(scores, labels, metrics=["ndcg@2", "mrr"]).values["mrr"]       # several, ranked once
0.5
>>> targets = Relevance.from_pairs(query=[0], item=[1], num_items=3)
>>> evaluate_catalogue(lambda query: scores[query], targets, metrics="mrr").values        # all items ranked
{'mrr': 0.5}
"""

from songrank.metrics.catalogue import evaluate_catalogue
from songrank.metrics.evaluation import Evaluation
from songrank.metrics.lists import dcg, evaluate_lists, hit_rate, mean_average_precision, mrr, ndcg, precision, recall
from songrank.metrics.recommended import ListFigures, list_figures, top_items
from songrank.metrics.sampled import evaluate_sampled

__all__ = ["Evaluation", "ListFigures", "dcg", "evaluate_catalogue", "evaluate_lists", "evaluate_sampled", "hit_rate"]
__all__ += ["list_figures", "mean_average_precision", "mrr", "ndcg", "precision", "recall", "top_items"]
