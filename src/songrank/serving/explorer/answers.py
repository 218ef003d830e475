"""What the page of ``songrank explore`` asks, and the answers as JSON values."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from songrank.core.csr import CSR
from songrank.core.errors import UserError, shown
from songrank.models.model_folder import ModelFolder
from songrank.serving.recommendations import Recommendations, known_ids, recommend, recommend_after

Names = Sequence[str | None]
MOST_ITEMS = 200
"""Largest number of items in a list."""
MOST_FOUND = 20
"""Number of users or items that a search returns."""
_MOST_HISTORY = 10_000


class Explorer:
    """Answers about one model or several, whose users and items are matched by their original ids.

    Ids are texts in all questions and answers: JavaScript has no exact 64-bit integers.

    Args:
        models: model folders of recommendation tasks, by the name to show.
        names: the name of each item by index for each model, see :func:`songrank.serving.item_names.read_names`;
            None for items without names.
    """

    def __init__(self, models: Mapping[str, ModelFolder], names: Sequence[Names | None] | None = None) -> None:
        self.models = [
            _Model(title, folder, own)
            for (title, folder), own in zip(models.items(), names or [None] * len(models), strict=True)
        ]
        self._users = list(dict.fromkeys(user for model in self.models for user in map(str, model.user_ids)))
        self._items = {item["id"]: item for model in reversed(self.models) for item in model.all_items()}
        self._folded = [(f"{item['name'] or ''}\n{item['id']}".casefold(), item) for item in self._items.values()]

    def start(self) -> dict[str, Any]:
        """The models, and a first user to show."""
        models = [model.description() for model in self.models]
        return {"models": models, "user": self._users[0] if self._users else "", "named": self._has_names()}

    def users(self, text: str) -> list[str]:
        """Users whose id begins with this text; an exact match comes first."""
        found: list[str] = []
        for user in self._users:
            if user.startswith(text):
                found.append(user)
                if len(found) == MOST_FOUND:
                    break
        exact = [text] if any(int(model.user_ids.find([text])[0]) >= 0 for model in self.models) else []
        return list(dict.fromkeys([*exact, *found]))[:MOST_FOUND]

    def items(self, text: str) -> list[dict[str, Any]]:
        """Items with this text in their name or id, by the position of the text."""
        wanted = text.casefold()
        found = [(folded.find(wanted), at) for at, (folded, _) in enumerate(self._folded) if wanted in folded]
        return [self._folded[at][1] for _, at in sorted(found)[:MOST_FOUND]]

    def recommend(
        self, user: str, k: int = 10, history: Sequence[str] | None = None, with_seen: bool = False
    ) -> list[dict[str, Any]]:
        """For each model the history of the user and its recommendations.

        With ``history``, ids of items with the newest last, those for a user with this history instead.
        """
        if not 1 <= k <= MOST_ITEMS:
            raise UserError(f"k is {k}; expected 1 to {MOST_ITEMS}")
        if history is not None and len(history) > _MOST_HISTORY:
            raise UserError(f"the history has {len(history):,} items; expected at most {_MOST_HISTORY:,}")
        if history is not None and (unknown := [item for item in history if item not in self._items]):
            raise UserError(f"unknown item {shown(unknown[0])}; choose one of the items found by the search")
        return [model.recommend(user, k, history, with_seen) for model in self.models]

    def _has_names(self) -> bool:
        return any(model.names is not None for model in self.models)


class _Model:
    """One of the models."""

    def __init__(self, title: str, folder: ModelFolder, names: Names | None) -> None:
        self.user_ids, self.item_ids = known_ids(folder)
        self.title, self.folder, self.names = title, folder, names
        self.of_histories = folder.of_histories() is not None

    def description(self) -> dict[str, Any]:
        reads = "histories" if self.folder.inputs == "histories" else "both" if self.of_histories else "ids"
        model = str(self.folder.info["model"]["name"])
        sizes = {"users": len(self.user_ids), "items": len(self.item_ids)}
        return {"title": self.title, "model": model, "reads": reads, **sizes}

    def all_items(self) -> list[dict[str, Any]]:
        names = self.names or [None] * len(self.item_ids)
        return [{"id": str(item), "name": name} for item, name in zip(self.item_ids, names, strict=True)]

    def item(self, number: int) -> dict[str, Any]:
        return {"id": str(self.item_ids[number]), "name": None if self.names is None else self.names[number]}

    def recommend(self, user: str, k: int, history: Sequence[str] | None, with_seen: bool) -> dict[str, Any]:
        number = int(self.user_ids.find([user])[0])
        own, notes = self._history(number), []
        changed = history is not None and self.of_histories
        if changed:
            assert history is not None
            items = self.item_ids.find(list(history))
            if missing := int((items < 0).sum()):
                notes.append(f"{missing} items of the history are unknown to this model")
            lists, met = self._changed(number, own, items[items >= 0])
            if self.folder.inputs != "histories":
                notes.append("without the members that read user ids")
            found = next(recommend_after(self.folder, lists, k, met=met, exclude_seen=not with_seen))
        else:
            if history is not None:
                notes.append("this model reads user ids: a changed history changes nothing")
            asked = self.user_ids[number] if number >= 0 else user
            found = next(recommend(self.folder, [asked], k, exclude_seen=not with_seen))
            if number < 0:
                notes.append("unknown user: the most popular items")
        seen = 0 if number < 0 or self.folder.seen is None else int(self.folder.seen.lengths[number])
        return {
            "known": number >= 0,
            "notes": notes,
            "changed": changed,
            "seen": seen,
            "ordered": self.folder.histories is not None,
            "history": [self.item(int(at)) for at in own["item"]],
            "items": self._ranked(found),
        }

    def _ranked(self, found: Recommendations) -> list[dict[str, Any]]:
        rows = zip(found.item.tolist(), found.score.tolist(), found.rank.tolist(), strict=True)
        return [{**self.item(item), "score": score, "rank": rank} for item, score, rank in rows]

    def _history(self, number: int) -> CSR:
        """The stored history of a user, oldest first, or the seen items of a model that reads ids."""
        stored = self.folder.seen if self.folder.histories is None else self.folder.histories
        assert stored is not None
        return stored.take(torch.tensor([number] if number >= 0 else [], dtype=torch.int64))

    def _changed(self, number: int, own: CSR, items: Tensor) -> tuple[CSR, CSR]:
        """Another history of a user as a table, and the seen items: without those removed, with those added."""
        if self.folder.info.get("duplicates", "keep") != "keep":
            last = {item: at for at, item in enumerate(items.tolist())}
            items = items[sorted(last.values())]
        columns: dict[str, Tensor] = {"item": items.to(torch.int32)}
        if "time" in own.columns:
            times = dict(zip(own["item"].tolist(), own["time"].tolist(), strict=True))
            newest = max(times.values(), default=0)
            columns["time"] = torch.tensor([times.get(item, newest) for item in items.tolist()], dtype=torch.int64)
        seen = (
            set() if number < 0 or self.folder.seen is None else set(self.folder.seen.take([number])["item"].tolist())
        )
        left = seen - (set(own["item"].tolist()) - set(items.tolist())) | set(items.tolist())
        met = CSR.from_lengths([len(left)], item=torch.tensor(sorted(left), dtype=torch.int32))
        return CSR.from_lengths([len(items)], **columns), met
