"""Learning to rank documents with features; X, y and group as in LightGBM."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from songrank.core.columns import Array
from songrank.core.errors import UserError, shown
from songrank.data.adapters.documents import (
    Documents,
    DocumentTable,
    Lists,
    read_documents,
    read_eval_names,
    read_eval_sets,
    read_lists,
    read_weights,
)
from songrank.data.adapters.feature_matrix import Features, FittedColumns, read_matrix
from songrank.data.preparation.within_query import FACTORS
from songrank.estimators.base import RankingEstimator, random_seed
from songrank.estimators.document_defaults import metric_changes, size_dependent
from songrank.estimators.lightgbm_part import MODEL, LightGBMPart, import_lightgbm
from songrank.estimators.saving import RANKER
from songrank.losses.registry import check_weighted_loss
from songrank.metrics import Evaluation, evaluate_lists
from songrank.serving.documents import score_in_parts, scores_alone
from songrank.serving.recommendations import check_count
from songrank.training.build import policies
from songrank.training.trainer.loop import validation_name

_PREPARED = {
    "quantiles": True,
    "within_query": "all",
    "shrink": True,
    "standardise": True,
    "missing": "mean",
    "missing_flags": True,
    "split": "given",
}
_ROWS = 4096  # batch size in documents, for pointwise models


@dataclass(eq=False, repr=False)
class DocumentRanker(RankingEstimator):
    """Learning to rank documents by features, with the API of ``LGBMRanker``.

    Args:
        loss: name of a loss: ``"song"``, ``"k-song"``, ``"lambdarank"``, …
        model: ``"mlp"``, ``"context-aware"``, or a dict of name and options; None for the model of the recipe, an MLP.
        recipe: name of a built-in recipe, or a YAML file.
        options: other recipe keys and values: ``{"loss.gamma": 0.1, "model.hidden": [64]}``.
        data_options: options of ``songrank data prepare feature-table``, e.g. ``{"within_query": "none"}``.
        lightgbm: True, or a dict of LightGBM's parameters, to blend the network with LightGBM's LambdaRank; see below.

    Other parameters: see :class:`~songrank.estimators.base.RankingEstimator`.

    A document has three columns per feature: its normal score by the quantiles of training, which outliers do not
    change, and its z-score and rank among the documents of its query. Missing values (NaN) are replaced by the mean and
    flagged in an extra column. ``fit`` learns the transformation, ``predict`` applies it.

    A score depends on the list, so pass ``group`` or ``qid`` to ``predict``. Without them, documents are compared with
    the training documents, which gives each the same score alone and among others; a model that needs lists, such as
    ``"context-aware"``, takes all rows as one list. ``fit`` without a recipe sets batch size, epochs and weight decay
    by the size of the data (:mod:`songrank.estimators.document_defaults`); ``options`` and ``epochs`` take precedence.

    With ``lightgbm``, a score is the weighted sum of the standardised scores of both models within the list. The weight
    is chosen on the first evaluation set, and 0.5 without one. LightGBM must be installed, and ``predict`` needs
    ``group`` or ``qid``. ``folder_`` and ``songrank rank`` have the network alone.

    Further fitted attributes: ``evals_result_`` by evaluation set and metric, ``best_iteration_``, ``n_features_in_``,
    ``feature_name_``, and ``feature_names_in_`` if X had names.

    >>> X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 2, 0, 0, 1])
    >>> small = {"model.hidden": [4], "warm_up.epochs": 2}
    >>> ranker = DocumentRanker(epochs=2, options=small, verbose=0).fit(X, y, group=[3, 3])
    >>> ranker.predict(X).shape, ranker.best_iteration_
    ((6,), 2)
    """

    task = "search"
    _: KW_ONLY
    lightgbm: bool | Mapping[str, Any] = False
    evals_result_: dict[str, dict[str, list[float]]] = field(init=False)
    best_iteration_: int = field(init=False)
    _reported: set[str] = field(init=False)  # notes of predict since the fit
    _lightgbm: LightGBMPart | None = field(init=False)

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        group: Any = None,
        qid: Any = None,
        group_weight: Any = None,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        eval_group: Sequence[Any] | None = None,
        eval_qid: Sequence[Any] | None = None,
        eval_sample_weight: Sequence[Any] | None = None,
        eval_names: Sequence[str] | None = None,
        eval_metric: str | Sequence[str] | None = None,
        eval_at: int | Sequence[int] | None = None,
    ) -> Self:
        """Fit to documents and their relevance labels.

        Args:
            X: features [n, F]: numpy, scipy sparse, pandas, polars or Arrow; NaN for missing values.
            y: labels [n] of at least 0, possibly fractional.
            sample_weight: [n], factors of the gain of relevant documents; 1 / propensity corrects position bias. Only
                for losses with gains: song, k-song, lambdarank, lambdaloss, approx-ndcg, gumbel-approx-ndcg,
                neural-ndcg, pirank.
                The warm-up with listwise cross-entropy ignores it, except that 0 means irrelevant.
            group: lengths of consecutive lists in X.
            qid: alternative to ``group``: the query id of each row, in any order.
            group_weight: weight of each query in the batch mean, in order of first appearance.
            eval_set: ``[(X, y), …]``. The first set is for validation and early stopping with the patience of the
                recipe, the others are evaluated after training. By default there is no early stopping.
            eval_group: ``group`` of each evaluation set.
            eval_qid: alternative to ``eval_group``: ``qid`` of each evaluation set.
            eval_sample_weight: ``sample_weight`` of each evaluation set.
            eval_names: names of the evaluation sets; by default ``valid_0``, ``valid_1``, ….
            eval_metric: metrics of the evaluation sets, such as ``"ndcg"``, ``"map"`` or ``"mrr@10"``; the first is
                that of early stopping. By default those of the recipe, or NDCG with ``eval_at``.
            eval_at: cutoffs of metrics without one, e.g. ``(5, 10)``.
        """
        self._check_process()
        asked = self._by_data = metric_changes(eval_metric, eval_at)
        recipe = self._recipe(Path())
        options = self._lightgbm_options(sample_weight, group_weight)
        if sample_weight is not None:
            check_weighted_loss(recipe.loss["name"])
        given, gain = read_matrix(X), str(recipe.gain)
        columns = FittedColumns.of(given, (self.data_options or {}).get("ignore"))
        train = read_documents(columns.find(given), y, group, qid, sample_weight, gain=gain)
        sets = read_eval_sets(eval_set, eval_group, eval_qid, eval_sample_weight)
        found = [(columns.find(read_matrix(data)), *more) for data, *more in sets]
        evaluated = [read_documents(*given, gain=gain, prefix="eval_") for given in found]
        called = read_eval_names(eval_names, len(sets))
        lists = train.lists.count
        weight = None if group_weight is None else read_weights("group_weight", group_weight, lists, "list")
        table = DocumentTable(columns.used, weight, columns.ignored)
        if self.recipe is None:
            how = (self.data_options or {}).get("within_query", _PREPARED["within_query"])
            width = len(columns.used) * FACTORS.get(how, 1)
            self._by_data = (*asked, *size_dependent(lists, train.features.rows, width, self.epochs))
        run = self._fit("feature-table", table.parts(train, evaluated[:1]), {**_PREPARED, **table.columns()})
        self.best_score_, self.evals_result_, self._reported = {}, {}, set()
        self.best_iteration_, self._lightgbm = int(self.history_[-1]["epoch"]), None
        self._take_columns(columns)
        if options is not None:
            self._add_lightgbm(train, evaluated[:1], options)
        if "validation" in run.dataset:
            self._note_validation(called[0] if called else "validation")
        for name, documents in zip(called[1:], evaluated[1:], strict=True):
            self._note(name, self._measure(documents, self._metrics(None)))
        return self

    def _lightgbm_options(self, *weights: Any) -> Mapping[str, Any] | None:
        """LightGBM's parameters; None without LightGBM."""
        if not isinstance(self.lightgbm, bool | Mapping):
            raise UserError(f"lightgbm is {shown(self.lightgbm)}; expected True, False or a dict of parameters")
        if self.lightgbm is False:
            return None
        if any(weight is not None for weight in weights):
            raise UserError("lightgbm does not support sample_weight and group_weight; leave out one of them")
        import_lightgbm()
        return {} if self.lightgbm is True else self.lightgbm

    def _add_lightgbm(self, train: Documents, evaluated: Sequence[Documents], options: Mapping[str, Any]) -> None:
        """Fit LightGBM, and choose its weight on the first evaluation set."""
        part = LightGBMPart.fit(train, options, self.recipe_.seed)
        for documents in evaluated:
            told = {name: value for name, value in policies(self.recipe_).items() if name != "empty"}
            network = self._score(documents.features, documents.lists)
            part = part.with_weight(network, documents, str(self.recipe_.validation.metric), **told)
        self._lightgbm = part
        self._say(f"blend of {1 - part.weight:.2f} {self.recipe_.model['name']} and {part.weight:.2f} LightGBM")
        if evaluated:
            self.evaluation_["validation"] = self._measure(evaluated[0], self._metrics(None))

    def _note_validation(self, name: str) -> None:
        """Set the attributes of validation in the last stage, under the name of the evaluation set."""
        metric = self.recipe_.validation.metric
        key, stage = validation_name(metric, "all"), self.history_[-1]["stage"]
        looks = [(line["epoch"], line[key]) for line in self.history_ if line["stage"] == stage and key in line]
        self._note(name, self.evaluation_.pop("validation"))
        if looks and self.recipe_.members is None and self._lightgbm is None:
            self.best_iteration_, best = max(looks, key=lambda look: look[1])
            self.best_score_[name][metric] = best
            self.evals_result_[name] = {metric: [value for _, value in looks]}

    def _note(self, name: str, found: Evaluation) -> None:
        self.evaluation_[name] = found
        self.best_score_[name] = dict(found.values)
        self.evals_result_[name] = {metric: [value] for metric, value in found.values.items()}

    def predict(self, X: Any, *, group: Any = None, qid: Any = None) -> Array:
        """Score documents, float32 [n]; higher is better.

        Args:
            X: features; named columns are matched by name, additional columns are ignored.
            group: lengths of lists; None if they are unknown: documents are compared with the training documents.
            qid: alternative to ``group``: the query id of each row.
        """
        features = self._features(X)
        if group is not None or qid is not None:
            return self._score(features, read_lists(features.rows, group, qid))
        if self._lightgbm is not None:
            raise UserError("predict needs group or qid with lightgbm: scores are standardised within lists")
        alone = scores_alone(self.folder_)
        self._note_no_lists("the training documents" if alone else "each other, as one list")
        return self._score_alone(features) if alone else self._score(features, read_lists(features.rows))

    def _note_no_lists(self, what: str) -> None:
        """Report once per fit how documents without lists are compared."""
        lists_matter = not self.folder_.model.capabilities.pointwise or "within_query" in self.folder_.info["features"]
        if lists_matter and what not in self._reported:
            self._reported.add(what)
            self._say(f"predict without group or qid compares documents with {what}; pass group for better rankings")

    def evaluate(
        self,
        X: Any,
        y: Any,
        group: Any = None,
        metrics: str | Sequence[str] | None = None,
        *,
        qid: Any = None,
        sample_weight: Any = None,
    ) -> Evaluation:
        """Compute metrics with the policies of the recipe; arguments as in :meth:`fit`.

        ``metrics`` is e.g. ``["ndcg@5", "mrr"]``, by default those of the recipe. Without ``group`` or ``qid``, all
        documents are one list.
        """
        wanted, gain = self._metrics(metrics), str(self.recipe_.gain)
        documents = read_documents(self._features(X), y, group, qid, sample_weight, gain=gain, one_list=True)
        return self._measure(documents, wanted)

    def permutation_importance(
        self,
        X: Any,
        y: Any,
        group: Any = None,
        metric: str | None = None,
        *,
        qid: Any = None,
        n_repeats: int = 5,
        random_state: Any = 0,
    ) -> dict[str, Array]:
        """The decrease of a metric when the values of one feature are shuffled among all documents.

        Use documents that were not in training. Of features that say the same, each has a low value.

        Args:
            X: features, as in :meth:`fit`.
            y: labels.
            group: lengths of consecutive lists in X; without ``group`` or ``qid``, all documents are one list.
            metric: e.g. ``"ndcg@5"``; by default the validation metric of the recipe.
            qid: alternative to ``group``.
            n_repeats: number of shuffles per feature.
            random_state: seed of the shuffles.

        Returns a dict of ``importances`` [features, repeats], ``importances_mean`` and ``importances_std``, in the
        order of ``feature_name_``, as scikit-learn's function of this name does.
        """
        (wanted,) = self._metrics([str(self.recipe_.validation.metric)] if metric is None else [metric])
        repeats, gain = check_count("n_repeats", n_repeats), str(self.recipe_.gain)
        documents = read_documents(self._features(X), y, group, qid, None, gain=gain, one_list=True)
        dense = documents.features.dense(0, documents.features.rows)
        generator = np.random.default_rng(random_seed(random_state))
        before = self._measure(documents, [wanted]).values[wanted]
        found = np.zeros((dense.shape[1], repeats))
        for column, repeat in np.ndindex(*found.shape):
            kept = dense[:, column].copy()
            dense[:, column] = generator.permutation(kept)
            shuffled = replace(documents, features=Features(dense, documents.features.names))
            found[column, repeat] = before - self._measure(shuffled, [wanted]).values[wanted]
            dense[:, column] = kept
        return {"importances": found, "importances_mean": found.mean(1), "importances_std": found.std(1)}

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, group: Any = None, qid: Any = None) -> float:
        """The validation metric of the recipe, NDCG@10 by default, for model selection with scikit-learn."""
        self._fitted()
        metric = str(self.recipe_.validation.metric)
        return float(self.evaluate(X, y, group, metric, qid=qid, sample_weight=sample_weight).values[metric])

    @property
    def feature_name_(self) -> list[str]:
        """Names of the features; ``Column_0``, … for unnamed features."""
        return [str(name) for name in self._fitted().info["features"]["names"]]

    def _features(self, X: Any) -> Features:
        self._fitted()
        return self._fitted_columns.find(read_matrix(X))

    def _score(self, features: Features, lists: Lists) -> Array:
        scores = self._network_scores(features, lists)
        if self._lightgbm is not None:
            rows = features.take(lists.order)
            scores[lists.order] = self._lightgbm.blended(scores[lists.order], rows.dense(0, rows.rows), lists.lengths)
        return scores

    def _network_scores(self, features: Features, lists: Lists) -> Array:
        folder = self._fitted()
        if folder.model.capabilities.pointwise and "within_query" not in folder.info["features"]:
            return self._score_alone(features)
        scores = np.empty(features.rows, np.float32)
        scores[lists.order] = score_in_parts(folder, lists.lengths, features.take(lists.order).dense, _ROWS)
        return scores

    def _score_alone(self, features: Features) -> Array:
        """Scores of documents that do not depend on lists, in batches."""
        lengths = np.diff([*range(0, features.rows, _ROWS), features.rows])
        return score_in_parts(self.folder_, lengths, features.dense, _ROWS, alone=True)

    def _measure(self, documents: Documents, metrics: Sequence[str]) -> Evaluation:
        scores, order = self._score(documents.features, documents.lists), documents.lists.order
        told = {"lengths": torch.from_numpy(documents.lists.lengths), "metrics": metrics, **policies(self.recipe_)}
        return evaluate_lists(torch.from_numpy(scores[order]), torch.from_numpy(documents.label[order]), **told)

    def _more(self) -> dict[str, Any]:
        columns = asdict(self._fitted_columns)
        weight = None if self._lightgbm is None else self._lightgbm.weight
        told = {"columns": columns, "evals_result": self.evals_result_, "best_iteration": self.best_iteration_}
        return {**told, "lightgbm_weight": weight}

    def _more_files(self) -> dict[str, bytes]:
        return {} if self._lightgbm is None else {MODEL: self._lightgbm.text()}

    def _take_files(self, files: Mapping[str, bytes]) -> None:
        super()._take_files(files)
        weight = json.loads(files[RANKER]).get("lightgbm_weight")
        self._lightgbm = None if weight is None else LightGBMPart.read(files[MODEL], float(weight))

    def _take_more(self, told: Any) -> None:
        self._reported = set()
        self.evals_result_, self.best_iteration_ = dict(told["evals_result"]), int(told["best_iteration"])
        names, ignored = (tuple(map(str, told["columns"][key])) for key in ("names", "ignored"))
        self._take_columns(FittedColumns(names, ignored, bool(told["columns"]["named"])))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = tags.target_tags.required = True
        return tags
