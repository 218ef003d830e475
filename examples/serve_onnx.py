"""Recommendations from an exported model, with onnxruntime and numpy alone: ``python serve_onnx.py model.onnx 3 17``.

The numbers are those of users in the prepared data set, or, where the model reads histories, of one user's
items, oldest first; the items that are printed, best first, are numbered as there too.
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
        feed, who = {"history": numbers[None]}, ["after these"]
    else:
        sys.exit(f"this model reads {', '.join(names)}; expected one of users or of histories")
    (scores,) = session.run(["scores"], feed)
    best = np.argsort(-scores, axis=1)[:, :5]
    for row, items in enumerate(best):
        print(f"{who[row]}: " + ", ".join(f"item {item} ({scores[row, item]:.3f})" for item in items))


if __name__ == "__main__":
    main()
