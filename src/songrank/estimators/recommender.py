"""Recommendation as most people want it: interactions in, items for users out."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
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
from songrank.estimators.held_out import held_out_relevance
from songrank.metrics import Evaluation, evaluate_catalogue
from songrank.models.model_folder import ModelFolder
from songrank.serving.answer_tables import recommendation_frame
from songrank.serving.batches import queries_at_once
from songrank.serving.recommendations import (
    Recommendations,
    column_names,
    need_histories,
    recommend,
    recommend_after,
    score_users,
)
from songrank.training.build import policies
from songrank.training.run import Run
from songrank.training.warm_start import WarmStart

_TOLD, _TABLE, _PAST = "recommender.json", "interactions.parquet", "past.safetensors"
_RECIPES = {"sequence": "sequences", "history": "histories"}  # where a model has one of its own
_ON_A_CPU = ("model.dim=64", "model.length=50", "model.dropout=0.2", "warm_up.epochs=30", "fine_tuning.epochs=10")
_MANY_ITEMS, _DRAWN = 5_000, "batch.irrelevant=2000"
"""A sequence model in a size for CPUs: what takes seconds an epoch on 100,000 interactions (docs/estimators.md)."""


@dataclass(eq=False, repr=False)
class Recommender(RankingEstimator):
    """Learns from who met what, and recommends what each user has not met yet.

    Args:
        loss: one of 15: ``"song"``, ``"k-song"``, ``"bce"``, ``"lambdarank"``, …
        model: ``"neumf"``, ``"matrix-factorisation"``, ``"two-tower"``, ``"sequence"`` (what a user turns to next),
            ``"history"`` (what he likes by all that he turned to), or a dict with options. None for the recipe's; if
            there is none either: ``"sequence"`` where there are times, small on a CPU, else ``"neumf"``.
        recipe: a shipped recipe or a YAML file to start from; None: ``"sequences"`` or ``"histories"`` for these two
            models, else ``"recommendation"``.
        options: any other key of a recipe: ``{"loss.gamma": 0.1, "batch.relevant": 10}``.
        data_options: of ``songrank data prepare interactions``: ``{"min_rating": 4, "split": "time"}``.
        user: column of users; ``"auto"`` finds it by its name. ``item``, ``label`` and ``time`` alike; label or time
            None for none.
        item: column of items.
        label: column of ratings, graded or fractional; without one every row counts alike.
        time: column of times; without one rows are in order of time.

    All other parameters are those of :class:`~songrank.estimators.base.RankingEstimator`.

    Of each user the last two items are held out, for validation and test: ``evaluation_`` says how well they were
    ranked among all items. ``fit(…)`` with ``data_options={"split": "none"}`` trains on everything instead.

    >>> clicks = {"user": ["a", "a", "a", "a", "b", "b", "b", "b"], "item": [1, 2, 3, 4, 3, 2, 9, 1]}
    >>> small = {"model.dim": 4, "batch.irrelevant": 2, "warm_up.epochs": 1}
    >>> model = Recommender(loss="song", epochs=2, options=small, verbose=0).fit(clicks)
    >>> found = model.recommend(["a", "nobody"], k=1)
    >>> found["user"].tolist(), found["item"].tolist(), found["source"].tolist()
    (['a', 'nobody'], [9, 2], ['model', 'popular'])

    """

    task = "recommendation"
    default_recipe = "recommendation"
    _: KW_ONLY
    user: str = "auto"
    item: str = "auto"
    label: str | None = "auto"
    time: str | None = "auto"
    _interactions: InteractionTable = field(init=False)
    _past: WarmStart | None = field(init=False)
    _timed: bool = field(init=False, default=False)  # of what was fitted last
    _sizes: Sequence[str] = field(init=False, default=())

    def _default_recipe(self) -> str:
        name = self.model.get("name") if isinstance(self.model, Mapping) else self.model
        return _RECIPES.get("sequence" if self._in_order() else str(name), self.default_recipe)

    def _in_order(self) -> bool:
        """Whether nobody named a model or a recipe, and the times of the data ask for one that reads order."""
        random = (self.data_options or {}).get("split") == "random"
        return self.model is None and self.recipe is None and self._timed and not random

    def _by_data(self) -> Sequence[str]:
        return self._sizes

    def _choose_sizes(self, items: int) -> Sequence[str]:
        """Of the model that is taken where nobody named one, by the device and the data."""
        if not self._in_order() or choose_device(self.device).type != "cpu":
            return ()
        return (*_ON_A_CPU, _DRAWN) if items > _MANY_ITEMS else _ON_A_CPU

    def _fitted_sizes(self) -> Sequence[str]:
        """The same of a model that was fitted, on whatever device that was."""
        if not self._in_order():
            return ()
        model = [f"model.{name}={json.dumps(value)}" for name, value in self.recipe_.model.items() if name != "name"]
        return (*model, f"batch.irrelevant={self.recipe_.batch.irrelevant}")

    def fit(self, interactions: Any, y: Any = None) -> Self:
        """Learn from a table of interactions.

        Args:
            interactions: pandas, polars, Arrow, a dict of columns, or an array of user, item, label and time.
            y: labels of the rows, if they are in no column.

        """
        self._learn(read_interactions(interactions, y, self._columns()))
        return self

    def partial_fit(self, interactions: Any, y: Any = None, *, epochs: int = 10) -> Self:
        """Go on with more interactions, of users and items old and new.

        Weights of known users and items and the loss's memory of known pairs are kept; new ones start fresh. All
        interactions so far are trained on, for some epochs of fine-tuning with the head as it is. Of each user the two
        that are now the last are held out. Without a fit before it, this is one.

        Args:
            interactions: as in :meth:`fit`, with the columns that were fitted.
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
        self._learn(more, *changes, "fine_tuning.decay={}", "fine_tuning.average=null", past=self._past)
        return self

    def _learn(self, interactions: InteractionTable, *changes: str, past: WarmStart | None = None) -> None:
        self._timed = "time" in interactions.names
        self._sizes = (
            self._choose_sizes(interactions.frame["item"].n_unique()) if past is None else self._fitted_sizes()
        )
        if self._in_order():
            self._say("there are times, so a model of sequences is fitted; model='neumf' is one without order")

        def kept(run: Run) -> dict[str, Any]:
            return {
                "_interactions": interactions,
                "_past": WarmStart.of(run.trainer, run.dataset) if self.members == 1 else None,
            }

        self._fit("interactions", interactions.called(), interactions.options(), *changes, past=past, also=kept)

    def _columns(self) -> ColumnOptions:
        return ColumnOptions(
            query_column=self.user, item_column=self.item, label_column=self.label, time_column=self.time
        )

    # ---- asking

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
            users: ids, or a table with a column of them; None for all users that are known.
            k: how many items a user; fewer where fewer are left.
            exclude_seen: leave out what the user met, in held-out splits too.
            allow: ids of the only items that may be recommended; None for all.
            deny: ids of items that may not.
            fallback: for users who were never seen: ``"popular"``, the items that most users met, ``"none"`` for no
                rows, or ``"error"``. ``source`` says ``"model"`` or ``"popular"``.

        """
        folder = self._fitted()
        assert folder.query_ids is not None
        table = self._interactions
        asked = table.original("user", folder.query_ids) if users is None else table.given(users, "user")
        limits = {"exclude_seen": exclude_seen, **self._limits(allow, deny)}
        parts = list(recommend(folder, id_keys(asked).to_list(), k, fallback=fallback, **limits))
        return self._answers(asked, parts, kind_of(users) if is_table(users) else table.kind)

    def recommend_for(
        self, histories: Any, k: int = 10, *, exclude_seen: bool = True, allow: Any = None, deny: Any = ()
    ) -> Any:
        """The k best items after each of these histories, for anybody, with a model that reads histories.

        Users in the table are answered by its rows alone, whether they were seen in fitting or not; they come in order
        of their ids. Where the label of :meth:`fit` is there, rows that it would not count as relevant do not count.

        Args:
            histories: rows of user, item and perhaps time, called as in :meth:`fit` or by usual names; without times
                rows are in order. Items that were never seen in fitting are passed over.
            k: how many items a user; fewer where fewer are left.
            exclude_seen: leave out what stands in the table for the user.
            allow: ids of the only items that may be recommended; None for all.
            deny: ids of items that may not.

        """
        folder = self._fitted()
        need_histories(folder)
        assert folder.item_ids is not None
        frame, names = read_table(histories, HISTORY), self._interactions.names
        user, item, time = (names[word] if names.get(word) in frame.columns else "auto" for word in HISTORY)
        when = time if "time" in names else None  # without times in fitting
        label = names["label"] if names.get("label") in frame.columns else None
        columns = ColumnOptions(query_column=user, item_column=item, label_column=label, time_column=when)
        table = read_interactions(frame, None, columns)
        log = table.log()
        read, met = table_histories(log, folder.item_ids, folder.info["duplicates"], folder.info.get("min_rating"))
        parts = recommend_after(folder, read, k, exclude_seen=exclude_seen, met=met, **self._limits(allow, deny))
        return self._answers(table.original("user", log.query_ids), list(parts), kind_of(histories))

    def _limits(self, allow: Any, deny: Any) -> dict[str, Any]:
        """Items that may and may not be recommended, as the model's ids."""
        given = {"allow": allow, "deny": deny}
        keys = {word: id_keys(self._interactions.given(ids, "item")) for word, ids in given.items() if ids is not None}
        return {word: ids.to_list() for word, ids in keys.items()}

    def _answers(self, asked: pl.Series, parts: Sequence[Recommendations], kind: str) -> Any:
        """Recommendations as a table with the original ids."""
        folder = self._fitted()
        assert folder.item_ids is not None
        items = self._interactions.original("item", folder.item_ids)
        names = column_names(self._interactions.names["user"], self._interactions.names["item"])
        return write_table(recommendation_frame(parts, names, asked, items), kind)

    def predict(self, interactions: Any) -> Array:
        """The model's score of each pair of user and item; NaN where one of them was never seen."""
        folder, frame = self._fitted(), self._interactions.pairs(interactions)
        user, item = self._numbers(frame)
        known = (user >= 0) & (item >= 0)
        scores = np.full(frame.height, np.nan, np.float32)
        with torch.no_grad():
            for rows in torch.split(known.nonzero().squeeze(-1), queries_at_once(folder, 2**8)):
                found = folder.model(folder.queries(user[rows]), item[rows].unsqueeze(1).to(folder.device))
                scores[rows.numpy()] = found.squeeze(1).float().cpu().numpy()
        return scores

    def evaluate(
        self, interactions: Any, y: Any = None, metrics: Sequence[str] = ("ndcg@10", "ndcg@20", "recall@20")
    ) -> Evaluation:
        """How well these interactions are ranked among all items that their users have not met otherwise.

        Users and items that were never seen in fitting are left out, and users who are not in the table; the policies
        are those of the recipe. Labels count as in fitting: those of the fitted column, or 1 where there is none; 0 and
        what is below ``min_rating`` is not relevant.

        Args:
            interactions: rows that were not fitted, with the columns that were.
            y: labels of the rows, instead of a column.
            metrics: what to measure.

        """
        metrics = self._metrics(metrics)
        folder, frame = self._fitted(), self._interactions.pairs(interactions, y)
        label = torch.from_numpy(label_column(frame, self.data_options or {}))
        users, relevance = held_out_relevance(folder, *self._numbers(frame), label)
        with torch.no_grad():
            scores = lambda query: score_users(folder, users[query])  # noqa: E731
            return evaluate_catalogue(scores, relevance, metrics=metrics, **policies(self.recipe_))

    def score(self, interactions: Any, y: Any = None) -> float:
        """NDCG@10 of :meth:`evaluate`, for model selection with scikit-learn.

        Folds must hold out rows and not users, of whom nothing would be known: ``KFold(shuffle=True)``.
        """
        return float(self.evaluate(interactions, y, ["ndcg@10"]).values["ndcg@10"])

    # ---- ids

    def _numbers(self, frame: pl.DataFrame) -> tuple[Tensor, Tensor]:
        folder = self._fitted()
        assert folder.query_ids is not None
        assert folder.item_ids is not None
        user, item = (id_keys(frame[word]).to_list() for word in ("user", "item"))
        return folder.query_ids.find(user), folder.item_ids.find(item)

    # ---- saving

    def save(self, directory: str | Path, *, data: bool = True) -> None:
        """Write the model folder and the parameters; nothing in it is a pickle.

        Callbacks and a custom ``folder`` are not saved. An estimator saved here before is replaced.

        Args:
            directory: where.
            data: whether the interactions and the loss's memory go along, which :meth:`partial_fit` needs.

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
    """The way back from :func:`_pack`, with the model that was saved beside."""
    told = json.loads(files[_TOLD])
    table = InteractionTable(pl.read_parquet(io.BytesIO(files[_TABLE])), dict(told["names"]), str(told["kind"]))
    if _PAST not in files:
        return table, None
    assert folder.query_ids is not None
    assert folder.item_ids is not None
    arrays = load(files[_PAST])
    memory = {name.removeprefix("memory."): rows for name, rows in arrays.items() if name != "pairs"}
    weights = {name: tensor.cpu() for name, tensor in folder.model.state_dict().items()}
    return table, WarmStart(folder.query_ids, folder.item_ids, weights, arrays["pairs"], str(told["loss"]), memory)
