"""Arrays written in pieces are what the safetensors library reads."""

import hashlib

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from songrank.io.arrays import Pieces, ScratchArray, read_arrays, write_arrays, write_tensors


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


def test_tensors_are_written_with_the_bytes_of_safetensors(tmp_path):
    kinds = [torch.int64, torch.float64, torch.float32, torch.int32, torch.float16, torch.int16, torch.int8]
    kinds += [torch.uint8, torch.bool, torch.float64, torch.int64, torch.bfloat16]
    tensors = {str(number): (torch.arange(12).view(3, 4) % 5).to(kind) for number, kind in enumerate(kinds)}
    tensors |= {"empty": torch.zeros(0, 3), "one": torch.tensor(0.5), "a part": torch.arange(9.0)[2:5]}
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, tmp_path / "expected")
    digest = write_tensors(tmp_path / "found", tensors)
    content = (tmp_path / "found").read_bytes()
    assert content == (tmp_path / "expected").read_bytes()
    assert digest == hashlib.sha256(content).hexdigest()
