"""Multi-label classification of texts or features, as ranking of labels."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
import torch
from torch import Tensor

from songrank.analysis.blend import blend_runs
from songrank.core.columns import Array
from songrank.core.errors import DataError
from songrank.core.relevance import Relevance
from songrank.data.adapters.feature_matrix import Features, FittedColumns, read_matrix
from songrank.data.adapters.frames import as_texts, kind_of, write_table
from songrank.data.adapters.label_sets import read_known_labels, read_label_sets
from songrank.data.readers.label_table import LabelledRows, sparse_block
from songrank.estimators.base import RankingEstimator, best_score
from songrank.estimators.label_candidates import REFIT_ROWS, Candidate, label_candidates
from songrank.metrics import Evaluation, evaluate_catalogue
from songrank.models.base import RankingModel
from songrank.models.registry import MODELS
from songrank.serving.answer_tables import label_frame
from songrank.serving.labels import Labels, label, score_labels
from songrank.serving.open import open_model
from songrank.training.build import policies
from songrank.training.run_directory import RunDirectory

_DIVIDED: dict[str, Any] = {"validation": 0.1, "test": 0.0}
_MOST_TERMS = 50_000  # default size of a vocabulary
_DEFAULT_LOSS = "song"


class LabelRanker(RankingEstimator):
    """Multi-label classification of texts or features by ranking all labels.

    Args:
        loss: name of a loss: ``"song"``, ``"k-song"``, ``"bce"``, ``"softmax"``, …
        model: ``"label-mlp"``, for texts also ``"xml-cnn"`` or ``"text-transformer"``, or a dict of name and options;
            None for the model of the recipe, or for a choice by validation, see below.
        recipe: name of a built-in recipe, or a YAML file; by default ``labelling``, for models that read words
            ``labelling-text``.
        options: other recipe keys and values: ``{"loss.gamma": 0.1, "model.hidden": [256]}``.
        data_options: options of ``songrank data prepare label-table``, for texts ``xmc-text``:
            ``{"validation": 0.2}``.

    Other parameters: see :class:`~songrank.estimators.base.RankingEstimator`.

    10 % of the rows are held out for validation; ``data_options={"validation": 0}`` trains on all rows. With the
    default loss, model, recipe, epochs, learning rate and options, a linear model and, from 1,000 rows, an MLP are
    fitted. A blend of both is kept if it is better by a standard error on validation rows, else the better one; up to
    10,000 rows, it is fitted again on all rows.

    Texts become tf-idf features, for models that read words the numbers of their words. Columns of dense features are
    standardised (``scale="standardise"``). Sparse non-negative features are treated as word counts: log(1 + x) and L2
    normalisation (``scale="log-l2"``; ``"none"`` to disable).

    Further fitted attributes: ``classes_``, the labels in the column order of ``decision_function``, and for features
    ``n_features_in_``, and ``feature_names_in_`` if X had names.

    >>> texts = ["tax on wine", "wine and beer", "law of the sea", "sea and ship"] * 5
    >>> labels = [["tax", "drink"], ["drink"], ["law", "sea"], ["sea"]] * 5
    >>> ranker = LabelRanker(verbose=0).fit(texts, labels)
    >>> ranker.predict(["a ship"], k=2).shape, ranker.classes_.tolist()
    ((1, 2), ['drink', 'law', 'sea', 'tax'])
    """

    task = "labelling"

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to texts or features, and labels.

        Args:
            X: texts, or features [n, F]: numpy, scipy sparse, pandas, polars or Arrow.
            y: for each row, a list of labels (integers or strings) or a single label, also as an array [n, 1]; or a
                matrix of label values [n, labels]: dense, sparse, or a table with labels as columns.
        """
        self._check_process()
        given = as_texts(X) or read_matrix(X)
        rows = len(given) if isinstance(given, list) else given.rows
        labels, ids = read_label_sets(y, rows)
        kind, options = "label-table", dict(_DIVIDED)
        if isinstance(given, list):
            kind = "xmc-text"
            options["features"] = "tf-idf" if self._kind().capabilities.inputs == "features" else "tokens"
        else:
            options["scale"] = _scale(given)

        def source() -> LabelledRows:
            if isinstance(given, list):
                return LabelledRows(labels, ids, texts=given)
            blocks = map(sparse_block, self._parts(given))
            return LabelledRows(labels, ids, features=blocks, num_features=given.count)

        if self._chooses():
            features = _MOST_TERMS if isinstance(given, list) else given.count
            self._fit_best(kind, source, options, label_candidates(rows, features, len(ids)), rows)
        else:
            self._fit(kind, source(), options)
        self._take_columns(None if isinstance(given, list) else FittedColumns.of(given))
        return self

    def _chooses(self) -> bool:
        """Whether all parameters of training have their defaults, so that the model is chosen by validation."""
        given = (self.model, self.recipe, self.epochs, self.learning_rate)
        return all(value is None for value in given) and not self.options and self.loss == _DEFAULT_LOSS

    def _kind(self) -> type[RankingModel]:
        """The class of the recipe's model."""
        return MODELS[self._recipe(Path("data")).model["name"]]

    def _fit_best(
        self,
        kind: str,
        source: Callable[[], LabelledRows],
        options: Mapping[str, Any],
        candidates: Sequence[Candidate],
        rows: int,
    ) -> None:
        """Fit the candidates, keep the best or a blend on validation, and fit it again on all rows if there are few."""
        told = self.data_options or {}
        if told.get("validation", _DIVIDED["validation"]) == 0:  # nothing to choose with
            self._fit(kind, source(), options, *candidates[-1].changes)
            return
        with self._prepared(kind, source(), options) as (work, by_data):
            fits = self._fits(work, candidates, by_data)
            found, weights, values = self._best_of(fits, work / "blend", candidates)
        self.__dict__.update(found)
        kept = [(one, weight) for one, weight in zip(candidates, weights, strict=True) if weight]
        again = rows <= REFIT_ROWS and "validation" not in told
        named = " and ".join(f"{weight:.2f} {one.name}" for one, weight in kept)
        chosen = f"blend of {named}" if kept[1:] else kept[0][0].name
        refitted = f", fitted again on all {rows:,} rows" if again else ""
        self._say(f"validation {self.recipe_.validation.metric}: {values}; chosen: {chosen}{refitted}")
        if again:
            with self._prepared(kind, source(), {**options, "validation": 0.0}) as (work, by_data):
                fits = self._fits(work, [one for one, _ in kept], by_data)
                found = fits[0]
                if kept[1:]:
                    given = [weight for _, weight in kept]
                    blend_runs(_paths(fits), work / "blend", weights=given, device=self.device, overwrite=True)
                    found = self._opened(work / "blend")
            self.folder_, self.recipe_ = found["folder_"], found["recipe_"]

    def _best_of(
        self, fits: Sequence[dict[str, Any]], place: Path, candidates: Sequence[Candidate]
    ) -> tuple[dict[str, Any], tuple[float, ...], str]:
        """The fitted attributes and the weights of the best fit, or of a blend that is better by a standard error.

        The last value has the validation metric of each, for messages.
        """
        metric = str(fits[0]["recipe_"].validation.metric)
        scores = [found["best_score_"]["validation"][metric] for found in fits]
        best = max(range(len(fits)), key=lambda number: (scores[number], -number))
        named = [f"{one.name} {score:.4f}" for one, score in zip(candidates, scores, strict=True)]
        alone = fits[best], tuple(float(number == best) for number in range(len(fits)))
        if len(fits) == 1:
            return *alone, named[0]
        made = blend_runs(_paths(fits), place, metric=metric, device=self.device, overwrite=True)
        assert made.choice is not None
        named.append(f"blend {made.choice.value:.4f}")
        if made.choice.difference.mean <= made.choice.difference.standard_error:
            return *alone, ", ".join(named)
        pairs = zip(candidates, fits, strict=True)
        history = [{"part": one.name, **line} for one, found in pairs for line in found["history_"]]
        evaluation = dict(made.evaluation)
        measured = {"evaluation_": evaluation, "best_score_": best_score(evaluation, metric, None)}
        return {**self._opened(place), **measured, "history_": history}, made.weights, ", ".join(named)

    def _fits(self, work: Path, candidates: Sequence[Candidate], by_data: Sequence[str]) -> list[dict[str, Any]]:
        """The fitted attributes of each candidate; its run is in ``run``, or in ``run-NAME`` if there are several."""
        names = [f"run-{one.name.replace(' ', '-').lower()}" if candidates[1:] else "run" for one in candidates]
        pairs = zip(names, candidates, strict=True)
        return [self._train(work / name, *one.changes, *by_data)[1] for name, one in pairs]

    def _opened(self, blend: Path) -> dict[str, Any]:
        """Model and recipe of a blend."""
        return {"folder_": open_model(blend, self.device), "recipe_": RunDirectory(blend).recipe()}

    def _default_recipe(self) -> str:
        name = self.model.get("name") if isinstance(self.model, Mapping) else self.model
        reads = MODELS[name].capabilities.inputs if isinstance(name, str) and name in MODELS else ""
        return "labelling-text" if reads == "words" else self.task

    @property
    def classes_(self) -> Array:
        """All labels, in column order of the scores."""
        known = self._fitted().item_ids
        assert known is not None
        return np.array(list(known), np.int64 if known.kind == "integer" else object)

    def predict(self, X: Any, k: int = 5) -> Array:
        """The k best labels per row, best first: [n, k], or [n, labels] if there are fewer."""
        found: Array = self.classes_[self._best(X, k).item.numpy()]
        return found

    def decision_function(self, X: Any) -> Array:
        """Scores of all labels, float32 [n, labels]; columns are :attr:`classes_`."""
        folder, parts = self._fitted(), self._parts(self._read(X))
        return torch.cat([scores.cpu() for part in parts for scores in score_labels(folder, part)]).numpy()

    def rank(self, X: Any, k: int = 5) -> Any:
        """The k best labels per row as a table of the type of X, or a dict of arrays: row, label, score, rank."""
        best, labels = self._best(X, k), pl.Series(self.classes_.tolist())
        frame = label_frame(pl.Series("row", np.arange(best.item.shape[0])), best, labels)
        return write_table(frame, kind_of(X))

    def evaluate(self, X: Any, y: Any, metrics: str | Sequence[str] | None = None) -> Evaluation:
        """Compute metrics with the policies of the recipe; unknown labels are ignored.

        Arguments are those of :meth:`fit`; columns of a matrix without names are :attr:`classes_`. ``metrics`` is e.g.
        ``["ndcg@5", "precision@1"]``, by default those of the recipe.
        """
        wanted = self._metrics(metrics)
        folder, given = self._fitted(), self._read(X)
        assert folder.item_ids is not None
        rows = len(given) if isinstance(given, list) else given.rows
        table = read_known_labels(y, rows, folder.item_ids)
        pairs = table.row_of_entries(), table["item"].long(), table["label"]
        targets = Relevance.from_pairs(*pairs, rows, len(folder.item_ids)).to(folder.device)

        def score_all(query: Tensor) -> Tensor:
            numbers = query.cpu().numpy()
            part = [given[at] for at in numbers] if isinstance(given, list) else given.take(numbers)
            return torch.cat([scores for some in self._parts(part) for scores in score_labels(folder, some)])

        return evaluate_catalogue(score_all, targets, metrics=wanted, **policies(self.recipe_))

    def score(self, X: Any, y: Any) -> float:
        """The validation metric of the recipe, NDCG@5 by default, for model selection with scikit-learn."""
        self._fitted()
        metric = str(self.recipe_.validation.metric)
        return float(self.evaluate(X, y, metric).values[metric])

    def _best(self, X: Any, k: int) -> Labels:
        found = [best for part in self._parts(self._read(X)) for best in label(self._fitted(), part, k)]
        return Labels(*(torch.cat(column) for column in zip(*found, strict=True)))

    def _read(self, X: Any) -> list[str] | Features:
        """Texts, or features in fitted order."""
        folder, texts = self._fitted(), as_texts(X)
        if (texts is None) == folder.reads_texts:
            given, fitted = ("features", "texts") if texts is None else ("texts", "features")
            raise DataError(f"X contains {given}", f"expected {fitted}, as in fit")
        if texts is not None:
            return texts
        return self._fitted_columns.find(read_matrix(X), type(self).__name__)

    def _parts(self, given: list[str] | Features) -> Iterator[Any]:
        """Texts, or blocks of dense features."""
        if isinstance(given, list):
            yield given
        else:
            yield from (_known(dense, first) for first, _, dense in given.blocks())

    def _more(self) -> dict[str, Any]:
        named = not self.folder_.reads_texts and self._fitted_columns.named
        return {"names": list(self._fitted_columns.names) if named else None}

    def _take_more(self, told: Any) -> None:
        names = told["names"]
        if not self.folder_.reads_texts:
            unnamed = (f"Column_{at}" for at in range(int(self.folder_.info["features"]["count"])))
            self._take_columns(FittedColumns(tuple(unnamed if names is None else names), (), names is not None))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.string = True
        tags.target_tags.required = tags.target_tags.two_d_labels = tags.target_tags.multi_output = True
        return tags


def _paths(fits: Sequence[Mapping[str, Any]]) -> list[Path]:
    """The directory of the model of each fit."""
    return [found["folder_"].path for found in fits]


def _known(dense: Array, first: int) -> Array:
    if np.isnan(dense).any():
        row, column = np.argwhere(np.isnan(dense))[0].tolist()
        raise DataError(f"X is NaN in row {first + row}, column {column} (from 0)", "impute missing values first")
    return dense


def _scale(features: Features) -> str:
    if not features.is_sparse:
        return "standardise"
    if features.values.nnz and features.values.data.min() >= 0:
        return "log-l2"
    return "standardise" if 2 * features.values.nnz > features.rows * features.count else "none"
