"""The precision of products: set where it is asked for, and nothing else of the process is touched."""

import subprocess
import sys

import pytest
import torch

from songrank.training.trainer.precision import products

matmul = torch.backends.cuda.matmul


NEW = hasattr(matmul, "fp32_precision")


def setting():
    return matmul.fp32_precision if NEW else matmul.allow_tf32


def test_it_holds_within_and_is_as_before_afterwards():
    before = setting()
    with products("tf32"):
        assert setting() == ("tf32" if NEW else True)
        with products("float32"):
            assert setting() == ("tf32" if NEW else True)
    assert setting() == before
    with pytest.raises(KeyError), products("tf32"):
        raise KeyError
    assert setting() == before


@pytest.mark.skipif(not NEW, reason="this torch has the old names alone")
@pytest.mark.parametrize(
    "told",
    [
        "torch.backends.cuda.matmul.fp32_precision = 'tf32'",
        "torch.backends.fp32_precision = 'tf32'",
        "torch.set_float32_matmul_precision('medium')",
        "torch.backends.cuda.matmul.allow_tf32 = True",
    ],
)
@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_what_the_process_has_set_by_whatever_name_stays(told, precision):
    ask = "torch.get_float32_matmul_precision() if 'set_' in told else torch.backends.cuda.matmul.fp32_precision"
    code = f"import torch; told = {told!r}; {told}; before = {ask}\n"
    code += f"from songrank.training.trainer.precision import products\nwith products({precision!r}): pass\n"
    code += f"assert before == ({ask})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
