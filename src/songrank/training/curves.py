"""A run's curves for TensorBoard, where it is installed."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from songrank.training.trainer.loop import VALIDATION


class Curves:
    """Writes one point per epoch and curve into a folder; nothing where TensorBoard or the folder cannot be had."""

    def __init__(self, folder: Path) -> None:
        self._writer: Any = None
        with suppress(ImportError, OSError):  # curves are a comfort: what matters is written elsewhere
            from torch.utils.tensorboard import SummaryWriter

            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):  # else its thread would fail later, and aloud
                self._writer = SummaryWriter(str(folder))

    def add(self, line: Mapping[str, Any]) -> None:
        """Add the points of one line of the history."""
        if self._writer is not None:
            for name in ("loss", "objective", "learning_rate", *(name for name in line if name.startswith(VALIDATION))):
                self._writer.add_scalar(name.replace(" ", "_").replace("@", "_at_"), line[name], line["step"])

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._writer.close()
