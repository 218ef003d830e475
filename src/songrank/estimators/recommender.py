"""Recommendation: interactions in, items for users out."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Self

import polars as pl
import torch
from safetensors.torch import load, save
from torch import Tensor

from songrank.core.columns import Array
from songrank.core.devices import choose_device
from songrank.core.errors import DataError, UserError
from songrank.data.adapters.frames import is_table, kind_of, read_table, write_table
from songrank.data.adapters.interaction_table import HISTORY, InteractionTable, id_keys, label_column, read_interactions
from songrank.data.histories import table_histories
from songrank.data.preparation_options import ColumnOptions
from songrank.estimators.base import RankingEstimator
from songrank.metrics import Evaluation, evaluate_catalogue
from songrank.models.model_folder import ModelFolder
from songrank.serving.answer_tables import recommendation_frame
from songrank.serving.recommend_file import history_columns
from songrank.serving.recommendations import (
    Recommendations,
    column_names,
    held_out_relevance,
    history_item_ids,
    known_ids,
    recommend,
    recommend_after,
    score_pairs,
    score_users,
)
from songrank.training.build import policies
from songrank.training.run import Run
from songrank.training.warm_start import WarmStart

_TOLD, _TABLE, _PAST = "recommender.json", "interactions.parquet", "past.safetensors"
_RECIPES = {"sequence": "sequences", "history": "histories"}  # where a model has one of its own
# A sequence model that takes seconds per epoch on a CPU on 100,000 interactions (docs/estimators.md).
_ON_A_CPU = ("model.dim=64", "model.length=50", "model.dropout=0.2", "warm_up.epochs=30", "fine_tuning.epochs=10")
_MANY_ITEMS, _DRAWN = 5_000, "batch.irrelevant=2000"


@dataclass(eq=False, repr=False)
class Recommender(RankingEstimator):
    """Learns from an interaction log, and recommends items that the user has not seen yet.

    Args:
        loss: one of 15: ``"song"``, ``"k-song"``, ``"bce"``, ``"lambdarank"``, …
        model: ``"neumf"``, ``"matrix-factorisation"``, ``"two-tower"``, ``"sequence"`` (the user's next item),
            ``"history"`` (further items from the whole history), or a dict with options. None for the recipe's;
            without a recipe: ``"sequence"`` if the data has times, small on a CPU, else ``"neumf"``.
        recipe: a shipped recipe or a YAML file to start from; None: ``"sequences"`` or ``"histories"`` for these two
            models, else ``"recommendation"``.
        options: any other key of a recipe: ``{"loss.gamma": 0.1, "batch.relevant": 10}``.
        data_options: of ``songrank data prepare interactions``: ``{"min_rating": 4, "split": "time"}``.
        user: column of users; ``"auto"``, also for the columns below: found by its name.
        item: column of items.
        label: column of ratings, graded or fractional; None: all rows count alike.
        time: column of times; None: rows are in order of time.

    All other parameters are those of :class:`~songrank.estimators.base.RankingEstimator`.

    The last two items of each user are held out for validation and test; ``evaluation_`` has their metrics among all
    items. ``data_options={"split": "none"}`` trains on everything instead.

    >>> clicks = {"user": ["a", "a", "a", "a", "b", "b", "b", "b"], "item": [1, 2, 3, 4, 3, 2, 9, 1]}
    >>> small = {"model.dim": 4, "batch.irrelevant": 2, "warm_up.epochs": 1}
    >>> model = Recommender(loss="song", epochs=2, options=small, verbose=0).fit(clicks)
    >>> found = model.recommend(["a", "nobody"], k=1)
    >>> found["user"].tolist(), found["item"].tolist(), found["source"].tolist()
    (['a', 'nobody'], [9, 2], ['model', 'popular'])
    """

    task = "recommendation"
    _: KW_ONLY
    user: str = "auto"
    item: str = "auto"
    label: str | None = "auto"
    time: str | None = "auto"
    _interactions: InteractionTable = field(init=False)
    _past: WarmStart | None = field(init=False)
    _timed: bool = field(init=False, default=False)  # of what was fitted last

    def _default_recipe(self) -> str:
        name = self.model.get("name") if isinstance(self.model, Mapping) else self.model
        return _RECIPES.get("sequence" if self._in_order() else str(name), self.task)

    def _in_order(self) -> bool:
        """Whether a sequence model is the default: no model or recipe is named, and the data has times."""
        random = (self.data_options or {}).get("split") == "random"
        return self.model is None and self.recipe is None and self._timed and not random

    def _sizes(self, items: int, *, fitted: bool) -> Sequence[str]:
        """Sizes of the default sequence model: for CPUs by the number of items, or those of the last fit."""
        if not self._in_order():
            return ()
        if fitted:
            given = self.recipe_.model.items()
            model = [f"model.{name}={json.dumps(value)}" for name, value in given if name != "name"]
            return (*model, f"batch.irrelevant={self.recipe_.batch.irrelevant}")
        if choose_device(self.device).type != "cpu":
            return ()
        return (*_ON_A_CPU, _DRAWN) if items > _MANY_ITEMS else _ON_A_CPU

    def fit(self, interactions: Any, y: Any = None) -> Self:
        """Learn from a table of interactions.

        Args:
            interactions: pandas, polars, Arrow, a dict of columns, or an array of user, item, label and time.
            y: labels of the rows, if they are in no column.
        """
        self._learn(read_interactions(interactions, y, self._columns()))
        return self

    def partial_fit(self, interactions: Any, y: Any = None, *, epochs: int = 10) -> Self:
        """Warm start with more interactions, of known and new users and items; the first call is a :meth:`fit`.

        Weights of known users and items and the loss's memory of known pairs are kept; new ones start fresh. Fine-tunes
        on all interactions so far, with the head as it is; the last two of each user are held out.

        Args:
            interactions: as in :meth:`fit`, with the fitted columns.
            y: labels of the rows, if they are in no column.
            epochs: of fine-tuning.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(interactions, y)
        if self.recipe_.members is not None:
            raise UserError(f"members was {self.recipe_.members} in fit, and partial_fit goes on with one; fit anew")
        if self._past is None:
            raise DataError("the interactions of earlier fits were not saved", "save with data=True, or fit anew")
        more = self._interactions.and_more(read_interactions(interactions, y, self._columns()))
        changes = ("warm_up.epochs=0", f"fine_tuning.epochs={epochs}", "fine_tuning.reset_head=false")
        self._learn(more, *changes, "fine_tuning.decay={}", "fine_tuning.ema_decay=null", past=self._past)
        return self

    def _learn(self, interactions: InteractionTable, *changes: str, past: WarmStart | None = None) -> None:
        self._timed = "time" in interactions.names
        self._by_data = self._sizes(interactions.frame["item"].n_unique(), fitted=past is not None)
        if self._in_order():
            self._say("there are times, so a model of sequences is fitted; model='neumf' is one without order")

        def kept(run: Run) -> dict[str, Any]:
            past = WarmStart.of(run.trainer, run.dataset) if self.members == 1 else None
            return {"_interactions": interactions, "_past": past}

        self._fit("interactions", interactions.called(), interactions.options(), *changes, past=past, also=kept)

    def _columns(self) -> ColumnOptions:
        columns = {"query": self.user, "item": self.item, "label": self.label, "time": self.time}
        return ColumnOptions(**{f"{word}_column": name for word, name in columns.items()})

    def recommend(
        self,
        users: Any = None,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        allow: Any = None,
        deny: Any = (),
        fallback: str = "popular",
    ) -> Any:
        """The k best items for each user, as a table of the kind that was fitted: user, item, score, rank, source.

        Args:
            users: ids, or a table with a column of them; None for all known users.
            k: items per user; fewer where fewer are left.
            exclude_seen: leave out the user's seen items, of held-out splits too.
            allow: ids of the only items that may be recommended; None for all.
            deny: ids of items that may not be recommended.
            fallback: for new users: ``"popular"``, the items with most users, whose ``source`` is ``"popular"`` and not
                ``"model"``; ``"none"``, no rows; or ``"error"``.
        """
        folder, table = self._fitted(), self._interactions
        asked = table.original("user", known_ids(folder)[0]) if users is None else table.given(users, "user")
        limits = {"exclude_seen": exclude_seen, **self._limits(allow, deny)}
        parts = list(recommend(folder, id_keys(asked).to_list(), k, fallback=fallback, **limits))
        return self._answers(asked, parts, kind_of(users) if is_table(users) else table.kind)

    def recommend_for(
        self, histories: Any, k: int = 10, *, exclude_seen: bool = True, allow: Any = None, deny: Any = ()
    ) -> Any:
        """The k best items after each of these histories, of known or new users, for models that read histories.

        Recommendations depend on the rows of the table alone and come in order of the users' ids. If the table has the
        label of :meth:`fit`, only relevant rows count.

        Args:
            histories: rows of user, item and perhaps time, called as in :meth:`fit` or by usual names; without times
                rows are in order. Unknown items are skipped.
            k: items per user; fewer where fewer are left.
            exclude_seen: leave out the user's items in the table.
            allow: ids of the only items that may be recommended; None for all.
            deny: ids of items that may not be recommended.
        """
        folder = self._fitted()
        item_ids, frame = history_item_ids(folder), read_table(histories, HISTORY)
        table = read_interactions(frame, None, history_columns(folder, frame.columns))
        log, told = table.log(), folder.info
        read, met = table_histories(log, item_ids, told["duplicates"], told.get("min_rating"))
        parts = recommend_after(folder, read, k, exclude_seen=exclude_seen, met=met, **self._limits(allow, deny))
        return self._answers(table.original("user", log.query_ids), list(parts), kind_of(histories))

    def _limits(self, allow: Any, deny: Any) -> dict[str, Any]:
        """``allow`` and ``deny`` as ids of the model."""
        given = {word: ids for word, ids in (("allow", allow), ("deny", deny)) if ids is not None}
        return {word: id_keys(self._interactions.given(ids, "item")).to_list() for word, ids in given.items()}

    def _answers(self, asked: pl.Series, parts: Sequence[Recommendations], kind: str) -> Any:
        """Recommendations as a table with the original ids."""
        table = self._interactions
        items = table.original("item", known_ids(self._fitted())[1])
        names = column_names(table.names["user"], table.names["item"])
        return write_table(recommendation_frame(parts, names, asked, items), kind)

    def predict(self, interactions: Any) -> Array:
        """The model's score of each pair of user and item; NaN where one of them is new."""
        folder = self._fitted()
        return score_pairs(folder, *self._numbers(self._interactions.pairs(interactions))).numpy()

    def evaluate(
        self, interactions: Any, y: Any = None, metrics: Sequence[str] = ("ndcg@10", "ndcg@20", "recall@20")
    ) -> Evaluation:
        """Metrics of these held-out interactions among all items without the users' other seen items.

        New users and items are left out; the policies are the recipe's. Labels count as in :meth:`fit`: those of the
        fitted column, or 1 without one; 0 and labels below ``min_rating`` are not relevant.

        Args:
            interactions: rows that were not fitted, with the fitted columns.
            y: labels of the rows, instead of a column.
            metrics: names of metrics.
        """
        metrics = self._metrics(metrics)
        folder, frame = self._fitted(), self._interactions.pairs(interactions, y)
        label = torch.from_numpy(label_column(frame, self.data_options or {}))
        users, relevance = held_out_relevance(folder, *self._numbers(frame), label)
        told = {"metrics": metrics, **policies(self.recipe_)}
        return evaluate_catalogue(lambda query: score_users(folder, users[query]), relevance, **told)

    def score(self, interactions: Any, y: Any = None) -> float:
        """NDCG@10 of :meth:`evaluate`. Folds of scikit-learn must hold out rows, not users: ``KFold(shuffle=True)``."""
        return float(self.evaluate(interactions, y, ["ndcg@10"]).values["ndcg@10"])

    def _numbers(self, frame: pl.DataFrame) -> tuple[Tensor, Tensor]:
        users, items = known_ids(self._fitted())
        return users.find(id_keys(frame["user"]).to_list()), items.find(id_keys(frame["item"]).to_list())

    def save(self, directory: str | Path, *, data: bool = True) -> None:
        """Write the model folder and the parameters, without pickle; replaces an estimator saved there before.

        The parameters ``callbacks`` and ``folder`` are not saved. With ``data``, the interactions and the loss's memory
        are: :meth:`partial_fit` needs them.
        """
        self._fitted()
        self._save(directory, _pack(self._interactions, self._past if data else None))

    def _take_files(self, files: Mapping[str, bytes]) -> None:
        self._interactions, self._past = _unpack(files, self._fitted())


def _pack(interactions: InteractionTable, past: WarmStart | None) -> dict[str, bytes]:
    """Files to save; without a past, names and types of columns alone."""
    told = {"names": dict(interactions.names), "kind": interactions.kind, "loss": None if past is None else past.loss}
    table = io.BytesIO()
    (interactions.frame.clear() if past is None else interactions.frame).write_parquet(table)
    files = {_TOLD: json.dumps(told).encode(), _TABLE: table.getvalue()}
    if past is not None:
        files[_PAST] = save({"pairs": past.pairs, **{f"memory.{name}": rows for name, rows in past.memory.items()}})
    return files


def _unpack(files: Mapping[str, bytes], folder: ModelFolder) -> tuple[InteractionTable, WarmStart | None]:
    """The inverse of :func:`_pack`, with the model that was saved beside."""
    told = json.loads(files[_TOLD])
    table = InteractionTable(pl.read_parquet(io.BytesIO(files[_TABLE])), dict(told["names"]), str(told["kind"]))
    if _PAST not in files:
        return table, None
    arrays = load(files[_PAST])
    memory = {name.removeprefix("memory."): rows for name, rows in arrays.items() if name != "pairs"}
    weights = {name: tensor.cpu() for name, tensor in folder.model.state_dict().items()}
    return table, WarmStart(*known_ids(folder), weights, arrays["pairs"], str(told["loss"]), memory)
