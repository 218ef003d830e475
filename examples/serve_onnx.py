"""Recommendations from an exported model, with onnxruntime and numpy alone: ``python serve_onnx.py model.onnx 3 17``.

The numbers are those of users in the prepared data set, and so are those of the items that are printed, best first.
"""

import sys

import numpy as np
import onnxruntime  # type: ignore[import-untyped]


def main() -> None:
    if len(sys.argv) < 3:
        print(__doc__)
        return
    session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
    query = np.array(sys.argv[2:], dtype=np.int64)
    (scores,) = session.run(["scores"], {"query": query})
    best = np.argsort(-scores, axis=1)[:, :5]
    for row, items in enumerate(best):
        print(f"user {query[row]}: " + ", ".join(f"item {item} ({scores[row, item]:.3f})" for item in items))


if __name__ == "__main__":
    main()
