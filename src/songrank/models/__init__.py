"""Models, one per file. Catalogue models are called ``model(query, item)``, list models ``model(features, mask)``.

>>> import torch
>>> from songrank import SONG, Relevance, SlateSampler, models
>>> relevance = Relevance.from_pairs(query=[0, 0, 1], item=[1, 2, 0], num_items=50)
>>> model = models.NeuMF(relevance.num_queries, relevance.num_items)
>>> loss = SONG(relevance.num_pairs)
>>> for slate in SlateSampler(relevance, queries_per_batch=2, relevant=2, irrelevant=8):
...     loss(model(slate.query, slate.item), slate).backward()
"""

from songrank.models.blend import Blend, UserInput
from songrank.models.context_aware import ContextAwareRanker
from songrank.models.ease import Ease
from songrank.models.ensemble import Ensemble
from songrank.models.history import HistoryModel
from songrank.models.lightgcn import LightGCN
from songrank.models.matrix_factorisation import MatrixFactorisation
from songrank.models.mlp import LabelMLP, MLPScorer
from songrank.models.neumf import NeuMF
from songrank.models.protocols import CatalogueModel, ListModel
from songrank.models.registry import create
from songrank.models.sequence import SequenceModel
from songrank.models.text_transformer import TextTransformer
from songrank.models.two_tower import TwoTower
from songrank.models.xml_cnn import XMLCNN

__all__ = ["XMLCNN", "Blend", "CatalogueModel", "ContextAwareRanker", "Ease", "Ensemble", "HistoryModel", "LabelMLP"]
__all__ += [
    "LightGCN",
    "ListModel",
    "MLPScorer",
    "MatrixFactorisation",
    "NeuMF",
    "SequenceModel",
    "TextTransformer",
    "TwoTower",
    "UserInput",
    "create",
]
