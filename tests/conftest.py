"""One thread a worker: two workers with two threads each on two cores only wait for one another."""

import os

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # ranx would compile for a minute what runs in a tenth of a second

import torch

torch.set_num_threads(1)
