"""Memory of the losses, one row per pair or query, and its update rules."""

from songrank.losses.memory.table import UNSEEN, MemoryTable, merge_states, seen
from songrank.losses.memory.updates import log_moving_average, moving_average, msvr, msvr_beta

__all__ = ["UNSEEN", "MemoryTable", "log_moving_average", "merge_states", "moving_average", "msvr", "msvr_beta", "seen"]
