"""Arrays written in pieces are what the safetensors library reads."""

import numpy as np
import torch
from safetensors.torch import load_file

from songrank.io.arrays import Pieces, ScratchArray, read_arrays, write_arrays


def test_arrays_in_pieces_are_what_the_library_reads(tmp_path):
    scratch = ScratchArray(tmp_path / "scratch", np.float32, (3,))
    rows = np.random.default_rng(0).normal(size=(1000, 3)).astype(np.float32)
    for start in range(0, 1000, 77):
        scratch.append(rows[start : start + 77])
    arrays = {
        "features": Pieces((1000, 3), np.dtype(np.float16), (rows[i : i + 100] for i in range(0, 1000, 100))),
        "mapped": scratch.mapped(),
        "bytes": np.arange(3, dtype=np.uint8),
        "offsets": np.arange(5, dtype=np.int64),
        "none": np.zeros((0, 4), np.int32),
    }
    write_arrays(tmp_path / "arrays.safetensors", arrays)
    for found in (load_file(tmp_path / "arrays.safetensors"), read_arrays(tmp_path / "arrays.safetensors")):
        torch.testing.assert_close(found["mapped"], torch.from_numpy(rows), rtol=0, atol=0)
        torch.testing.assert_close(found["features"], torch.from_numpy(rows).half(), rtol=0, atol=0)
        assert found["bytes"].tolist() == [0, 1, 2]
        assert found["offsets"].tolist() == [0, 1, 2, 3, 4]
        assert found["none"].shape == (0, 4)
