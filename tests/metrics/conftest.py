import os

# ranx compiles for a minute and then runs for a millisecond; read by numba when it is first imported.
os.environ.setdefault("NUMBA_DISABLE_JIT", "1")
