"""Recommendations from an exported model, with onnxruntime and numpy only: ``python serve_onnx.py model.onnx 3 17``.

The arguments are user numbers of the prepared data set or, if the model reads histories, the item numbers of one user's
history, oldest first. The best items are printed by number, best first.
"""

import sys

import numpy as np
import onnxruntime  # type: ignore[import-untyped]


def main() -> None:
    if len(sys.argv) < 3:
        print(__doc__)
        return
    session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
    numbers = np.array(sys.argv[2:], dtype=np.int64)
    names = [given.name for given in session.get_inputs()]
    if names == ["query"]:
        feed, who = {"query": numbers}, [f"user {number}" for number in numbers]
    elif names == ["history"]:
        feed, who = {"history": numbers[None]}, ["after this history"]
    else:
        sys.exit(f"model inputs are {', '.join(names)}; expected 'query' or 'history'")
    (scores,) = session.run(["scores"], feed)
    best = np.argsort(-scores, axis=1)[:, :5]
    for row, items in enumerate(best):
        print(f"{who[row]}: " + ", ".join(f"item {item} ({scores[row, item]:.3f})" for item in items))


if __name__ == "__main__":
    main()
