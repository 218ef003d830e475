"""Multilayer perceptrons for documents and for multi-label classification."""

from collections.abc import Sequence

from torch import Tensor, nn

from songrank.core.options import Annotated, Count, Sizes, checked
from songrank.models._inputs import column_scores, read_lists
from songrank.models._layers import Activation, Dropped, FeatureLinear, Features, bend, hidden_layers
from songrank.models.base import Capabilities, LabelModel, RankingModel


class MLPScorer(RankingModel):
    """An MLP that scores each document independently, the usual baseline of neural learning to rank.

        score = w · φ_n(W_n … φ_1(W_1 x + b_1) … + b_n) + b

    where φ is the activation and dropout.

    Args:
        num_features: number of features of a document.
        hidden: widths of the hidden layers; ``()`` for a linear model.
        dropout: dropout probability of hidden layers.
        activation: ``"relu"``, ``"gelu"``, ``"silu"`` or ``"tanh"``.

    >>> import torch
    >>> from songrank.models import MLPScorer
    >>> model = MLPScorer(num_features=5)
    >>> scores = model(torch.randn(2, 3, 5), torch.tensor([[True, True, True], [True, False, False]]))
    >>> scores.shape, scores[1, 1:].tolist()
    (torch.Size([2, 3]), [0.0, 0.0])
    """

    capabilities = Capabilities("documents", pointwise=True)

    @checked
    def __init__(
        self,
        num_features: Count,
        hidden: Annotated[Sequence[int], Sizes()] = (64, 32),
        dropout: Dropped = 0.0,
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.body = hidden_layers(num_features, hidden, dropout, activation)
        self.head = nn.Linear((num_features, *hidden)[-1], 1)

    def reset_head(self) -> None:
        """Reinitialise w and b; the hidden layers are kept."""
        self.head.reset_parameters()

    def forward(self, features: Tensor, mask: Tensor) -> Tensor:
        """Scores [B, L] of documents [B, L, F], 0 where the mask [B, L] or [1, L] is False."""
        features, mask = read_lists(features, mask, self.num_features, self.head.weight.dtype)
        scores: Tensor = self.head(self.body(features)).squeeze(-1)
        return scores.masked_fill(~mask, 0.0)


class LabelMLP(LabelModel):
    """An MLP from the features of a text, dense or sparse, to a score for each label.

        score_label = w_label · φ_n(… φ_1(W_1 x + b_1) …) + b_label

    A bag of words is a sparse CSR tensor or its parts (indices, offsets [B + 1], values), and is not densified. If
    few of many labels are requested, only their rows w_label are read.

    Args:
        num_features: number of features of a text.
        num_labels: number of labels.
        hidden: widths of the hidden layers; ``()`` for a linear model.
        dropout: dropout probability of hidden layers.
        activation: ``"relu"``, ``"gelu"``, ``"silu"`` or ``"tanh"``.
        zero_head: whether w and b of all labels start from 0 instead of random numbers, which allows large learning
            rates. In a linear model the scores then depend only on features that occur in training.

    >>> import torch
    >>> from songrank.models import LabelMLP
    >>> model = LabelMLP(num_features=6, num_labels=9, hidden=(4,))
    >>> texts = torch.eye(6)[:2]
    >>> model(texts, item=torch.tensor([[8, 1, 3], [0, 1, 2]])).shape
    torch.Size([2, 3])
    >>> bags = (torch.tensor([0, 1]), torch.tensor([0, 1, 2]), torch.ones(2))      # the same texts
    >>> torch.allclose(model.score_all(bags), model.score_all(texts.to_sparse_csr()), atol=1e-6)
    True
    """

    capabilities = Capabilities("features", dot_product=True)
    head: nn.Linear | FeatureLinear

    @checked
    def __init__(
        self,
        num_features: Count,
        num_labels: Count,
        hidden: Annotated[Sequence[int], Sizes()] = (1024,),
        dropout: Dropped = 0.0,
        activation: Activation = "relu",
        zero_head: bool = False,
    ) -> None:
        super().__init__()
        self.num_items, self.zero_head = num_labels, zero_head
        self.body: nn.Sequential | None = None
        if hidden:
            self.body = nn.Sequential(
                FeatureLinear(num_features, hidden[0]),
                *bend(dropout, activation),
                hidden_layers(hidden[0], hidden[1:], dropout, activation),
            )
            self.head = nn.Linear(hidden[-1], num_labels)
        else:
            self.head = FeatureLinear(num_features, num_labels)
        if zero_head:
            self.reset_head()

    def reset_head(self) -> None:
        """Reinitialise w and b of all labels; other layers are kept."""
        if not self.zero_head:
            return super().reset_head()
        for parameter in self.head.parameters():
            nn.init.zeros_(parameter)

    def query_vectors(self, query: Features) -> Tensor:
        """Z, [B, D]."""
        assert self.body is not None
        z: Tensor = self.body(query)
        return z

    def forward(self, query: Features, item: Tensor) -> Tensor:
        """Scores [B, L] of the labels [B, L] or [1, L] for B texts."""
        # In a linear model, a sparse row reads the weight rows of its words, each with all labels.
        return column_scores(self.head(query), item) if self.body is None else super().forward(query, item)

    def score_all(self, query: Features) -> Tensor:
        """Scores [B, num_labels] for B texts."""
        return self.head(query) if self.body is None else super().score_all(query)
