"""Recommendation from interaction logs."""

import io
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, Self

import polars as pl
import torch
from safetensors.torch import load, save
from torch import Tensor

from songrank.analysis.auto import AutoRun
from songrank.analysis.standing import standing
from songrank.core.columns import Array
from songrank.core.errors import DataError, UserError, shown
from songrank.core.text import counted
from songrank.data.adapters.frames import is_table, kind_of, read_table, write_table
from songrank.data.adapters.interaction_table import HISTORY, InteractionTable, id_keys, label_column, read_interactions
from songrank.data.features.table import EntityTable
from songrank.data.histories import table_histories
from songrank.data.preparation_options import ColumnOptions
from songrank.data.readers.interactions import ITEM_NAMES, USER_NAMES
from songrank.estimators.base import RankingEstimator, random_seed
from songrank.io.source import Job
from songrank.metrics import Evaluation, evaluate_catalogue
from songrank.models.model_folder import ModelFolder
from songrank.models.registry import MODELS
from songrank.serving.answer_tables import recommendation_frame
from songrank.serving.new_ids import add_ids
from songrank.serving.new_interactions import add_interactions
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
from songrank.serving.similar import similar_items, similar_users
from songrank.serving.similar_file import similar_frame
from songrank.training.build import policies
from songrank.training.run import Run
from songrank.training.warm_start import WarmStart

_TOLD, _TABLE, _PAST = "recommender.json", "interactions.parquet", "past.safetensors"
_RECIPES = {"sequence": "sequences", "history": "histories", "ease": "ease", "neumf": "neumf"}
"""The default recipes of models, if it is not that of the task."""
_COSINE = {"scoring": "cosine", "temperature": 0.2}
_BY_NAME = {"matrix-factorisation": {}, "lightgcn": {}, "two-tower": {"learn_temperature": False}}
"""The models that share the recipe of the task, which have its scores if they are given by name."""
AUTO = "auto"
_HOLD_OUT_ROWS = "hold out rows, not users: in cross-validation use cv=KFold(shuffle=True), or sort the table by time"
_DEFAULTS = {"loss": "song", "epochs": None, "learning_rate": None, "options": None, "members": 1}
_OF_ONE_MODEL = tuple(_DEFAULTS)
"""Parameters that set something about one model; with one of them nothing is chosen automatically."""


@dataclass(eq=False, repr=False)
class Recommender(RankingEstimator):
    """Recommendation of unseen items from an interaction log.

    Args:
        loss: name of a loss: ``"song"``, ``"k-song"``, ``"bce"``, ``"lambdarank"``, …
        model: ``"matrix-factorisation"``, ``"two-tower"``, ``"lightgcn"``, ``"neumf"``, ``"sequence"`` (next item),
            ``"history"`` (item set), ``"ease"`` (linear, in closed form), or a dict of name and options, such as
            ``{"name": "lightgcn", "layers": 3, "scoring": "cosine", "temperature": 0.1}``. By name,
            ``"matrix-factorisation"``, ``"two-tower"`` and ``"lightgcn"`` have cosine scores. ``"auto"`` fits EASE
            first, then models that suit the data, within ``budget`` seconds, and keeps those that help on validation,
            as a blend. None for the model of the recipe; without a recipe, ``"auto"``, or ``"matrix-factorisation"`` if
            ``loss``, ``epochs``, ``learning_rate``, ``options`` or ``members`` is given.
        recipe: name of a built-in recipe, or a YAML file; by default ``"sequences"``, ``"histories"`` or ``"neumf"``
            for their models, else ``"recommendation"``.
        options: other recipe keys and values: ``{"loss.gamma": 0.1, "batch.relevant": 10}``.
        data_options: options of ``songrank data prepare interactions``: ``{"min_rating": 4, "split": "time"}``.
        user: column of users; ``"auto"`` here and below: detected by name.
        item: column of items.
        label: column of ratings, possibly fractional; None: all rows have label 1.
        time: column of times; None: rows are in time order.
        budget: seconds of training; None for no limit, with ``"auto"`` 15 s and 0.5 ms per training pair, at most 30
            minutes. The result then depends on the speed of the machine.

    Other parameters: see :class:`~songrank.estimators.base.RankingEstimator`.

    The last two items of each user are held out for validation and test; ``evaluation_`` has their metrics, with all
    items ranked. :meth:`fit` takes your own validation and test sets, and ``data_options={"split": "none"}`` trains on
    all data.

    >>> clicks = {"user": ["a", "a", "a", "a", "b", "b", "b", "b"], "item": [1, 2, 3, 4, 3, 2, 9, 1]}
    >>> small = {"model.dim": 4, "batch.irrelevant": 2, "warm_up.epochs": 1}
    >>> model = Recommender(loss="song", epochs=2, options=small, verbose=0).fit(clicks)
    >>> found = model.recommend(["a", "new"], k=1)
    >>> found["user"].tolist(), found["item"].tolist(), found["source"].tolist()
    (['a', 'new'], [9, 2], ['model', 'popular'])
    """

    task = "recommendation"
    _: KW_ONLY
    user: str = "auto"
    item: str = "auto"
    label: str | None = "auto"
    time: str | None = "auto"
    budget: float | None = None
    _interactions: InteractionTable = field(init=False)
    _past: WarmStart | None = field(init=False)
    _tables: Mapping[str, pl.DataFrame] = field(init=False, default_factory=dict)

    def _default_recipe(self) -> str:
        if self._chooses():
            return AUTO
        name = self.model.get("name") if isinstance(self.model, Mapping) else self.model
        return _RECIPES.get(str(name), self.task)

    def _chooses(self) -> bool:
        """Whether the fit chooses models automatically: no recipe, and no setting of a single model."""
        if self.model not in (None, AUTO) or self.recipe is not None:
            return False
        single = [name for name in _OF_ONE_MODEL if getattr(self, name) != _DEFAULTS[name]]
        if self.model == AUTO and single:
            fix = "leave it out, or name a model, such as model='matrix-factorisation'"
            raise UserError(f"{single[0]} is {getattr(self, single[0])!r} with model='auto', which chooses it; {fix}")
        return not single and not self._tables

    def _check_tables(self) -> None:
        """Raise if there are features, and the given model cannot use them."""
        name = self.model.get("name") if isinstance(self.model, Mapping) else self.model
        able = [known for known, kind in MODELS.items() if kind.capabilities.item_tables]
        if name is None or name in able:
            return
        words = " and ".join(f"{word}s" for word in self._tables)
        fix = f"expected {', '.join(able)}, or leave out {words}"
        raise UserError(f"model is {shown(name)}, which learns no vectors of items to map features to; {fix}")

    def _changes(self) -> list[str]:
        if self.budget is not None and not (isinstance(self.budget, Real) and 0 < self.budget < float("inf")):
            raise UserError(f"budget is {self.budget!r}; expected a number of seconds above 0")
        if not self._chooses():
            return super()._changes()
        told = [f"seed={random_seed(self.random_state)}", f"device={self.device}"]
        return told if self.budget is None else [*told, f"auto.budget={float(self.budget)}"]

    def _limit(self) -> float | None:
        return self.budget

    def _report_standing(self, run: Run | AutoRun) -> None:
        if isinstance(run, AutoRun):  # which has reported it
            return
        found = standing(run.dataset, run.recipe, run.results.get("validation"))
        if found is not None:
            self._say(found.line())
            self._say(found.warning())

    def _model(self) -> str | Mapping[str, Any] | None:
        if self.recipe is not None or not isinstance(self.model, str) or self.model not in _BY_NAME:
            return self.model
        return {"name": self.model, **_COSINE, **_BY_NAME[self.model]}

    def fit(
        self,
        interactions: Any,
        y: Any = None,
        *,
        validation: Any = None,
        test: Any = None,
        items: Any = None,
        users: Any = None,
    ) -> Self:
        """Fit to a table of interactions.

        With ``validation`` or ``test``, no other rows are held out, ``interactions`` are for training, and
        ``evaluation_`` has the metrics of these sets. Held-out rows are dropped and counted, in a line of output and in
        ``dataset.json``, if their user or item is unknown in training, or if the pair is also in training.

        Args:
            interactions: pandas, polars or Arrow table, dict of columns, or array of user, item, label and time.
            y: labels of the rows, if not a column.
            validation: a table with the same columns, which selects the best epoch; or the fraction of each user's
                training pairs to hold out at random, e.g. 0.1. With ``y``, a table is given as (table, labels).
            test: a table, which is evaluated once after training.
            items: a table of items with features: numbers, categories, lists of categories, texts, dates and vectors,
                one row per item. Its items without interactions are recommended, too: after training, a linear map
                from features to the learned vectors gives theirs. The model is then ``"matrix-factorisation"`` by
                default. ``data_options={"item_columns": {"year": "categorical"}}`` sets kinds of
                columns.
            users: a table of users with features.

        >>> train = {"user": ["a", "a", "a", "b", "b", "b"], "item": [1, 2, 3, 3, 2, 9]}
        >>> small = {"model.dim": 4, "batch.irrelevant": 2, "warm_up.epochs": 1}
        >>> model = Recommender(epochs=1, options=small, verbose=0)
        >>> model.fit(train, test={"user": ["a", "b"], "item": [9, 1]}).evaluation_["test"].num_queries
        2
        """
        self._check_process()
        columns, own = self._columns(), validation is not None or test is not None
        if own and columns.split_column is not None:
            raise UserError(f"split_column is {columns.split_column!r}; expected none with validation or test")
        table = read_interactions(interactions, y, columns)
        given = {"item": items, "user": users}
        tables = {word: self._entities(word, some, table) for word, some in given.items() if some is not None}
        self._learn(self._with_splits(table, y is not None, validation, test) if own else table, tables=tables)
        return self

    @staticmethod
    def _entities(word: str, source: Any, table: InteractionTable) -> pl.DataFrame:
        """A table of items or users."""
        usual = ITEM_NAMES if word == "item" else USER_NAMES
        return EntityTable(source, word, (table.names[word], *usual), Job()).whole()

    def _with_splits(self, table: InteractionTable, labelled: bool, validation: Any, test: Any) -> InteractionTable:
        """Training rows with validation and test rows; ``labelled``: labels are given besides the tables."""
        fraction, given = 0.0, {"validation": validation, "test": test}
        if isinstance(validation, Real):
            fraction = float(given.pop("validation"))
            if not 0 <= fraction < 1:
                raise UserError(f"validation is {validation!r}; expected a fraction from 0 to below 1, or a table")
        held_out = {}
        for split, rows in given.items():
            if rows is None:
                continue
            if labelled != (isinstance(rows, tuple) and len(rows) == 2):
                wanted = "(table, labels), since y is given" if labelled else "a table of interactions"
                raise UserError(f"{split} is a {type(rows).__name__}; expected {wanted}")
            part, labels = rows if labelled else (rows, None)
            try:
                held_out[split] = read_interactions(part, labels, self._columns())
            except DataError as error:
                raise DataError(error.what, error.fix, file=split) from None
        return table.with_splits(held_out, fraction)

    def partial_fit(
        self, interactions: Any = None, y: Any = None, *, epochs: int = 10, items: Any = None, users: Any = None
    ) -> Self:
        """Warm start with additional interactions of known and new users and items; the first call is a :meth:`fit`.

        Weights of known users and items and the memory of known pairs are kept, new ones are initialised. Fine-tunes on
        all interactions so far without resetting the head; the last two items of each user are held out, or the
        validation and test sets of :meth:`fit`, and all additional interactions are for training.

        Args:
            interactions: as in :meth:`fit`, with the fitted columns.
            y: labels of the rows, if not a column.
            epochs: number of fine-tuning epochs; models in closed form and automatically chosen ones are fitted again.
                With 0, nothing is trained, which takes seconds at most: the rows are seen items, and part of the
                histories of known users; rows of new users and items are kept for the next training.
            items: a table of items, of which new ones are added, with the columns of :meth:`fit`. Without
                ``interactions``, nothing is trained: they are scored from their features at once.
            users: likewise a table of users.
        """
        self._check_process()
        if not self.__sklearn_is_fitted__():
            return self.fit(interactions, y, items=items, users=users)
        tables = self._more_entities({"item": items, "user": users})
        if interactions is None:
            return self._add_ids(
                [word for word, some in (("item", items), ("user", users)) if some is not None], tables
            )
        if self.recipe_.members is not None:
            raise UserError(f"members is {self.recipe_.members}; expected 1 for partial_fit, or call fit")
        if self._past is None:
            raise DataError("the interactions of previous fits were not saved", "save with data=True, or call fit")
        given = read_interactions(interactions, y, self._columns())
        more = self._interactions.and_more(given)
        if epochs == 0:
            return self._add_interactions(given, more, tables)
        if self.recipe_.closed_form or self.recipe_.auto is not None:
            self._learn(more, tables=tables)
            return self
        changes = ("warm_up.epochs=0", f"fine_tuning.epochs={epochs}", "fine_tuning.reset_head=false")
        self._learn(
            more, *changes, "fine_tuning.decay={}", "fine_tuning.ema_decay=null", past=self._past, tables=tables
        )
        return self

    def _more_entities(self, given: Mapping[str, Any]) -> dict[str, pl.DataFrame]:
        """The tables of the fit, with the new rows of other ones."""
        found = dict(self._tables)
        for word, source in given.items():
            if source is None:
                continue
            if word not in found and word in self._fitted().encoders:  # saved without data
                found[word] = self._entities(word, source, self._interactions)
                continue
            if word not in found:
                raise UserError(f"{word}s is given, but fit had no {word}s; call fit with both tables")
            old, new = found[word], self._entities(word, source, self._interactions)
            name = old.columns[0]
            new = new.rename({new.columns[0]: name})
            try:
                new = new.select(old.columns).with_columns(pl.col(name).cast(old.schema[name]))
                added = new.filter(~pl.col(name).is_in(old[name].implode()))
                found[word] = pl.concat([old, added], how="vertical_relaxed")
            except pl.exceptions.PolarsError:
                told = ", ".join(f"{column} {kind}" for column, kind in old.schema.items())
                raise DataError(f"the table of {word}s has other columns", f"expected {told}, as in fit") from None
        return found

    def _add_interactions(
        self, given: InteractionTable, more: InteractionTable, tables: Mapping[str, pl.DataFrame]
    ) -> Self:
        """Add interactions of known users to the fitted model, without training."""
        folder, added = add_interactions(self._fitted(), given.log())
        self._say(f"{counted(added.rows, 'rows')} added")
        if left := added.new_users + added.new_items:
            self._say(f"{counted(left, 'rows')} of new users or items are kept for the next training")
        self.__dict__.update(folder_=folder, _interactions=more, _tables=tables)
        return self

    def _add_ids(self, words: Sequence[str], tables: Mapping[str, pl.DataFrame]) -> Self:
        """Add new items or users to the fitted model, without training."""
        if not words:
            raise UserError("interactions is missing; expected a table, or items or users alone")
        folder = self._fitted()
        for word in words:
            folder, new, unknown = add_ids(folder, word, tables[word])
            for column, count in unknown.items():
                self._say(f"{counted(count, 'values')} of {column} unknown in training")
            self._say(counted(new, f"new {word}s"))
        self.__dict__.update(folder_=folder, _tables=tables)
        return self

    def _learn(
        self,
        interactions: InteractionTable,
        *changes: str,
        past: WarmStart | None = None,
        tables: Mapping[str, pl.DataFrame],
    ) -> None:
        before, self._tables = self._tables, tables
        try:
            self._learn_from(interactions, *changes, past=past)
        except BaseException:
            self._tables = before
            raise

    def _learn_from(self, interactions: InteractionTable, *changes: str, past: WarmStart | None) -> None:
        if self._tables:
            self._check_tables()
        options = {f"{word}s": table for word, table in self._tables.items()}

        def kept(run: Run | AutoRun) -> dict[str, Any]:
            return {"_interactions": interactions, "_past": run.warm_start() if self.members == 1 else None}

        self._fit(
            "interactions", interactions.called(), {**interactions.options(), **options}, *changes, past=past, also=kept
        )

    def _columns(self) -> ColumnOptions:
        return ColumnOptions(
            user_column=self.user,
            item_column=self.item,
            label_column=self.label,
            time_column=self.time,
            split_column=(self.data_options or {}).get("split_column"),
        )

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
        """The k best items for each user, as a table of the fitted type: user, item, score, rank, source.

        Args:
            users: ids, or a table with a column of ids; None for all known users.
            k: items per user; fewer if there are not enough items.
            exclude_seen: exclude the user's seen items, including held-out splits.
            allow: ids of items that may be recommended; None for all.
            deny: ids of items that must not be recommended.
            fallback: for new users: ``"popular"``, items with most users, with ``source`` ``"popular"`` instead of
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
        """The k best items for each history, of known or new users, for models of histories.

        Recommendations depend only on the rows of the table and are sorted by user id. If the table has the label
        column of :meth:`fit`, only relevant rows are used.

        Args:
            histories: rows of user, item and optionally time, with column names as in :meth:`fit` or usual names;
                without times, rows are in time order. Unknown items are ignored.
            k: items per user; fewer if there are not enough items.
            exclude_seen: exclude the user's items in the table.
            allow: ids of items that may be recommended; None for all.
            deny: ids of items that must not be recommended.
        """
        folder = self._fitted()
        item_ids, frame = history_item_ids(folder), read_table(histories, HISTORY)
        table = read_interactions(frame, None, history_columns(folder, frame.columns))
        log, told = table.log(), folder.info
        read, met = table_histories(log, item_ids, told["duplicates"], told.get("min_rating"))
        parts = recommend_after(folder, read, k, exclude_seen=exclude_seen, met=met, **self._limits(allow, deny))
        return self._answers(table.original("user", log.query_ids), list(parts), kind_of(histories))

    def similar_items(self, items: Any = None, k: int = 10) -> Any:
        """The k most similar items of each item, as a table of the fitted type: item, similar item, score, rank.

        Models with item vectors compare them by cosine; EASE has the weight of an item for a history of the other; the
        automatic choice adds the standardised similarities of its models.

        Args:
            items: ids, or a table with a column of ids; None for all items.
            k: items per item; the item itself is left out.
        """
        return self._similar(similar_items, "item", items, k)

    def similar_users(self, users: Any = None, k: int = 10) -> Any:
        """The k most similar users of each known user, by the cosine of their vectors, for dot-product models.

        Arguments and table are those of :meth:`similar_items`.
        """
        return self._similar(similar_users, "user", users, k)

    def _similar(self, find: Callable[..., Iterator[Recommendations]], word: str, ids: Any, k: int) -> Any:
        folder, table = self._fitted(), self._interactions
        known = known_ids(folder)[0 if word == "user" else 1]
        everything = table.original(word, known)
        asked = everything if ids is None else table.given(ids, word)
        keys = id_keys(asked).to_list()
        parts, name = list(find(folder, keys, k)), table.names[word]
        name = word if name in ("score", "rank") else name
        frames = [similar_frame(part, name, known.find(keys).numpy(), everything) for part in parts]
        return write_table(pl.concat(frames), kind_of(ids) if is_table(ids) else table.kind)

    def _limits(self, allow: Any, deny: Any) -> dict[str, Any]:
        """``allow`` and ``deny`` as model ids."""
        given = {word: ids for word, ids in (("allow", allow), ("deny", deny)) if ids is not None}
        return {word: id_keys(self._interactions.given(ids, "item")).to_list() for word, ids in given.items()}

    def _answers(self, asked: pl.Series, parts: Sequence[Recommendations], kind: str) -> Any:
        """Recommendations as a table with the original ids."""
        table = self._interactions
        items = table.original("item", known_ids(self._fitted())[1])
        names = column_names(table.names["user"], table.names["item"])
        return write_table(recommendation_frame(parts, names, asked, items), kind)

    def predict(self, interactions: Any) -> Array:
        """The score of each pair of user and item; NaN, with a warning, for new users or items."""
        folder, frame = self._fitted(), self._interactions.pairs(interactions)
        users, items = self._numbers(frame)
        unknown = ((users < 0) | (items < 0)).numpy()
        if unknown.any():
            row = int(unknown.argmax())
            word = "user" if int(users[row]) < 0 else "item"
            what = f"{int(unknown.sum()):,} of {counted(len(unknown), 'rows')} have a user or item unknown in training"
            warnings.warn(f"{what}, such as {word} {shown(frame[word][row])}; their score is NaN", stacklevel=2)
        return score_pairs(folder, users, items).numpy()

    def evaluate(
        self, interactions: Any, y: Any = None, metrics: Sequence[str] = ("ndcg@10", "ndcg@20", "recall@20")
    ) -> Evaluation:
        """Compute metrics of held-out interactions, ranking all items except other seen items of the user.

        New users and items are ignored, with a warning if most rows have a new user; policies are those of the recipe.
        Labels are used as in :meth:`fit`: the fitted column, or 1 without one; 0 and labels below ``min_rating`` are
        not relevant.

        Args:
            interactions: held-out rows, with the fitted columns.
            y: labels of the rows, if not a column.
            metrics: names of metrics.
        """
        metrics = self._metrics(metrics)
        folder, frame = self._fitted(), self._interactions.pairs(interactions, y)
        label = torch.from_numpy(label_column(frame, self.data_options or {}))
        numbers = self._numbers(frame)
        new = int((numbers[0] < 0).sum())
        if frame.height > new > frame.height / 2:
            what = f"{new:,} of {counted(frame.height, 'rows')} have a user unknown in training and are ignored"
            warnings.warn(f"{what}; {_HOLD_OUT_ROWS}", stacklevel=2)
        users, relevance = held_out_relevance(folder, *numbers, label)
        told = {"metrics": metrics, **policies(self.recipe_)}
        return evaluate_catalogue(lambda query: score_users(folder, users[query]), relevance, **told)

    def score(self, interactions: Any, y: Any = None) -> float:
        """NDCG@10 of :meth:`evaluate`. Cross-validation must hold out rows, not users: ``KFold(shuffle=True)``.

        Folds of consecutive rows, the default of scikit-learn, hold out whole users if the table is sorted by user.
        """
        return float(self.evaluate(interactions, y, ["ndcg@10"]).values["ndcg@10"])

    def _numbers(self, frame: pl.DataFrame) -> tuple[Tensor, Tensor]:
        users, items = known_ids(self._fitted())
        return users.find(id_keys(frame["user"]).to_list()), items.find(id_keys(frame["item"]).to_list())

    def save(self, directory: str | Path, *, data: bool = True) -> None:
        """Save model and parameters to a directory, without pickle; an existing estimator is replaced.

        The parameters ``callbacks`` and ``folder`` are not saved. With ``data``, the interactions and the memory of the
        loss are saved, which :meth:`partial_fit` requires.
        """
        self._fitted()
        self._save(directory, _pack(self._interactions, self._past if data else None, self._tables if data else {}))

    def _take_files(self, files: Mapping[str, bytes]) -> None:
        self._interactions, self._past, self._tables = _unpack(files, self._fitted())


def _pack(
    interactions: InteractionTable, past: WarmStart | None, tables: Mapping[str, pl.DataFrame]
) -> dict[str, bytes]:
    """Files to save; without a past, only names and types of columns."""
    told = {"names": dict(interactions.names), "kind": interactions.kind, "fraction": interactions.fraction}
    told["loss"] = None if past is None else past.loss
    table = io.BytesIO()
    (interactions.frame.clear() if past is None else interactions.frame).write_parquet(table)
    files = {_TOLD: json.dumps(told).encode(), _TABLE: table.getvalue()}
    for word, entities in tables.items():
        stream = io.BytesIO()
        entities.write_parquet(stream)
        files[f"{word}s.parquet"] = stream.getvalue()
    if past is not None:
        files[_PAST] = save({"pairs": past.pairs, **{f"memory.{name}": rows for name, rows in past.memory.items()}})
    return files


def _unpack(
    files: Mapping[str, bytes], folder: ModelFolder
) -> tuple[InteractionTable, WarmStart | None, dict[str, pl.DataFrame]]:
    """The inverse of :func:`_pack`."""
    told = json.loads(files[_TOLD])
    frame, fraction = pl.read_parquet(io.BytesIO(files[_TABLE])), float(told.get("fraction", 0.0))
    table = InteractionTable(frame, dict(told["names"]), str(told["kind"]), fraction)
    names = {word: f"{word}s.parquet" for word in ("item", "user")}
    tables = {word: pl.read_parquet(io.BytesIO(files[name])) for word, name in names.items() if name in files}
    if _PAST not in files:
        return table, None, tables
    arrays = load(files[_PAST])
    memory = {name.removeprefix("memory."): rows for name, rows in arrays.items() if name != "pairs"}
    weights = {name: tensor.cpu() for name, tensor in folder.model.state_dict().items()}
    return table, WarmStart(*known_ids(folder), weights, arrays["pairs"], str(told["loss"]), memory), tables
