"""What pytest leaves out: kernels cannot be imported where Triton is not installed."""

import importlib.util

collect_ignore_glob = (
    [] if importlib.util.find_spec("triton") else ["src/songrank/kernels/[!_]*.py", "src/songrank/kernels/_p*.py"]
)
