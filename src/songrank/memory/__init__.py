"""What losses remember, one row per pair or per query, and how a new estimate enters it."""

from songrank.memory.moving_average import log_moving_average, moving_average
from songrank.memory.msvr import msvr, msvr_beta
from songrank.memory.table import UNSEEN, MemoryTable, merge_states, seen

__all__ = ["UNSEEN", "MemoryTable", "log_moving_average", "merge_states", "moving_average", "msvr", "msvr_beta", "seen"]
