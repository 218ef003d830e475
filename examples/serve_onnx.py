"""Recommendations from an exported model, with onnxruntime and numpy only: ``python serve_onnx.py model.onnx u7 u12``.

The arguments are users or, if the model reads histories, the items of one user's history, oldest first; all are ids of
your data. ``songrank export`` writes them beside the model, to ``model.ids.json``. Seen items are left out.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]

K = 5


class Recommender:
    """An exported model with its ids; both must come from the same export."""

    def __init__(self, file: Path) -> None:
        told = json.loads(file.with_suffix(".ids.json").read_text(encoding="utf-8"))
        if told["sha256"] != hashlib.sha256(file.read_bytes()).hexdigest():
            sys.exit(f"{file.with_suffix('.ids.json')}: belongs to another model; export both again")
        self.session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        self.inputs = [given.name for given in self.session.get_inputs()]
        self.items, self.seen = told["items"], told.get("seen", [])
        self.number_of_item = {str(name): number for number, name in enumerate(self.items)}
        self.number_of_user = {str(name): number for number, name in enumerate(told.get("users", []))}

    def for_users(self, users: list[str]) -> dict[str, list[tuple[Any, float]]]:
        """The best unseen items of each known user; an unknown user has no list."""
        known = [user for user in users if user in self.number_of_user]
        if not known:
            return {}
        numbers = np.array([self.number_of_user[user] for user in known], np.int64)
        (scores,) = self.session.run(["scores"], {"query": numbers})
        return {
            user: self.best(row, self.seen[number]) for user, number, row in zip(known, numbers, scores, strict=True)
        }

    def after(self, items: list[str]) -> list[tuple[Any, float]]:
        """The best other items after this history; unknown items are skipped."""
        history = [self.number_of_item[item] for item in items if item in self.number_of_item]
        (scores,) = self.session.run(["scores"], {"history": np.array([history or [-1]], np.int64)})
        return self.best(scores[0], history)

    def best(self, scores: Any, seen: list[int]) -> list[tuple[Any, float]]:
        """The best items, by their ids, with scores."""
        if np.isnan(scores).any():  # the model's answer to a number that it does not know
            raise ValueError("an id is unknown to the model")
        scores = scores.copy()
        scores[seen] = -np.inf
        order = np.argsort(-scores, kind="stable")[:K]
        return [(self.items[item], float(scores[item])) for item in order if scores[item] > -np.inf]


def main() -> None:
    if len(sys.argv) < 3:
        print(__doc__)
        return
    model, asked = Recommender(Path(sys.argv[1])), sys.argv[2:]
    if model.inputs == ["query"]:
        found = model.for_users(asked)
        answers = [(f"user {user}", found.get(user)) for user in asked]
    elif model.inputs == ["history"]:
        answers = [("after this history", model.after(asked))]
    else:
        sys.exit(f"model inputs are {', '.join(model.inputs)}; expected 'query' or 'history'")
    for who, items in answers:
        shown = "unknown" if items is None else ", ".join(f"{item} ({score:.3f})" for item, score in items)
        print(f"{who}: {shown}")


if __name__ == "__main__":
    main()
