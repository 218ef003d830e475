"""Lists of documents with features, and labels that follow a planted non-linear function of the features."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from songrank.core.columns import Array
from songrank.core.csr import numpy_offsets
from songrank_paper.synthetic.numbers import BLOCK, long_tailed_counts, num_blocks, stream
from songrank_paper.synthetic.shapes import Plan

_SPREAD = 0.8  # of the lengths of lists
_SHARES = (0.515, 0.325, 0.134, 0.018)  # of the labels 0 to 3, as in MSLR-WEB30K; the rest are 4
_HIDDEN, _LATENT = 16, 8
_QUERY_EFFECT = 0.5  # some queries have more relevant documents than others
_LOGNORMAL_MEAN, _LOGNORMAL_DEVIATION = np.exp(0.5), np.sqrt((np.e - 1) * np.e)


@dataclass(frozen=True)
class Lists:
    """Lengths of lists, correlations of features, and the planted function of relevance."""

    plan: Plan
    lengths: Array  # [queries]
    mixing: Array  # [latent, features]: features share latent causes, so they are correlated
    columns: Array  # [2, hidden]: each hidden unit of the planted function reads two features
    slopes: Array  # [2, hidden]
    signs: Array  # [hidden]

    @classmethod
    def draw(cls, plan: Plan) -> "Lists":
        """The parameters that all lists share."""
        rng = stream(plan.seed, "lists")
        lengths = long_tailed_counts(plan.items, plan.queries, plan.fewest, plan.most, rng, _SPREAD)
        mixing = rng.standard_normal((_LATENT, plan.features), dtype=np.float32)
        mixing *= 0.5**0.5 / np.linalg.norm(mixing, axis=0)
        columns = rng.integers(0, plan.features, (2, _HIDDEN))
        slopes = rng.uniform(0.5, 2.0, (2, _HIDDEN)).astype(np.float32) * rng.choice([-1, 1], (2, _HIDDEN))
        signs = rng.uniform(0.5, 1.5, _HIDDEN) * rng.choice([-1, 1], _HIDDEN)
        return cls(plan, lengths, mixing, columns, slopes, signs)

    def features(self, first: int, last: int) -> Iterator[Array]:
        """Features of the documents of queries ``first`` to ``last``, in blocks."""
        offsets = numpy_offsets(self.lengths)
        for block in range(first // BLOCK, num_blocks(last)):
            low, high = block * BLOCK, min((block + 1) * BLOCK, self.plan.queries)
            rows = self._documents(int(offsets[high] - offsets[low]), stream(self.plan.seed, "documents", block))
            yield rows[offsets[max(first, low)] - offsets[low] : offsets[min(last, high)] - offsets[low]]

    def _documents(self, number: int, rng: np.random.Generator) -> Array:
        """Features with mean 0 and standard deviation 1: a third each normal, log-normal, and rounded log-normal."""
        value = rng.standard_normal((number, self.mixing.shape[1]), dtype=np.float32)
        value *= np.float32(0.5**0.5)
        value += rng.standard_normal((number, _LATENT), dtype=np.float32) @ self.mixing
        for kind in (1, 2):
            column = np.exp(value[:, kind::3])
            column = np.rint(column) if kind == 2 else column
            value[:, kind::3] = (column - np.float32(_LOGNORMAL_MEAN)) / np.float32(_LOGNORMAL_DEVIATION)
        return value

    def _raw_relevance(self, features: Array) -> Array:
        seen = features[:, self.columns[0]] * self.slopes[0] + features[:, self.columns[1]] * self.slopes[1]
        relevance: Array = np.tanh(seen) @ self.signs
        return relevance

    def relevance(self) -> Array:
        """[documents]: the planted function with mean 0 and standard deviation 1, the best possible score."""
        sample = self._raw_relevance(self._documents(1 << 13, stream(self.plan.seed, "sample")))
        pieces = [self._raw_relevance(piece) for piece in self.features(0, self.plan.queries)]
        relevance: Array = (np.concatenate(pieces) - sample.mean()) / sample.std()
        return relevance

    def labels(self, relevance: Array) -> Array:
        """[documents]: labels 0 to 4 with the shares of MSLR-WEB30K, from relevance, a query effect and noise."""
        noise, rng = self.plan.noise, stream(self.plan.seed, "judges")
        level = (1 - noise) ** 0.5 * relevance + noise**0.5 * rng.standard_normal(relevance.shape[0])
        level += np.repeat(_QUERY_EFFECT * rng.standard_normal(self.plan.queries), self.lengths)
        places = np.minimum(np.rint(np.cumsum(_SHARES) * level.shape[0]).astype(np.int64), level.shape[0] - 1)
        labels: Array = np.searchsorted(np.sort(level)[places], level, side="right").astype(np.float32)
        return labels
