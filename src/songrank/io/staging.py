"""Atomic creation of directories."""

import ctypes
import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from songrank.core.errors import DataError
from songrank.io.files import WINDOWS, in_use, new_parents, process_mark, sync_folder, write_remedy

_UNFINISHED, _REPLACED = ".songrank-unfinished-", ".songrank-replaced-"


@contextmanager
def staged_directory(
    target: Path, *, marker: str, own: tuple[str, ...] = (), overwrite: bool = False
) -> Iterator[Path]:
    """Create a temporary directory, which is renamed to ``target`` on success and removed on failure.

    It has a hidden name beside ``target``. The rename is the only commit point: a directory of another name is never
    taken for a complete one, whatever it holds. Leftovers of killed processes are removed by the next writer of
    ``target`` (not on Windows, where running processes cannot be detected). With ``overwrite``, an existing directory
    is replaced if it holds the file ``marker`` and no other files than arrays and ``own``.
    """
    target = Path(os.path.realpath(target))
    staging = _beside(target, _UNFINISHED)
    with new_parents(target):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _clear_up(target)
            _check_free(target, overwrite, marker, own)
            staging.mkdir()
            yield staging
            _check_free(target, overwrite, marker, own)
            replace_directory(staging, target)
        except OSError as error:
            fix = f"nothing was written; {write_remedy(error, 'choose another directory')}"
            raise DataError(f"cannot be written ({error.strerror or error})", fix, file=str(target)) from None
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _clear_up(target: Path) -> None:
    """Remove leftovers of killed processes; restore ``target`` if one was killed while it replaced the directory."""
    for mark in (_REPLACED, _UNFINISHED):
        for left in target.parent.glob(f".{glob.escape(target.name)}{mark}*"):
            if in_use(left.name):
                continue
            if mark == _REPLACED and not target.exists():
                os.rename(left, target)
            else:
                _remove(left, target)


def _remove(left: Path, target: Path) -> None:
    """Remove a directory; a part that a kill leaves has the name of an unfinished one."""
    with suppress(OSError):
        left = left.rename(_beside(target, _UNFINISHED))
    shutil.rmtree(left, ignore_errors=True)


def _check_free(target: Path, overwrite: bool, marker: str, own: tuple[str, ...]) -> None:
    try:
        if not target.exists() and not target.is_symlink():
            return
        if target.is_dir() and not any(target.iterdir()):
            return
        ours = (target / marker).exists()
    except OSError as error:
        raise DataError(f"cannot be opened ({error.strerror})", "choose another directory", file=str(target)) from None
    if not ours:
        raise DataError(f"already exists and has no {marker}", "choose a new directory", file=str(target))
    if not overwrite:
        raise DataError("already exists", "pass --overwrite to replace it", file=str(target))
    known, files = (marker, *own), target.iterdir()
    foreign = sorted(f.name for f in files if f.is_dir() or (f.name not in known and f.suffix != ".safetensors"))
    if foreign:
        raise DataError(f"contains other files ({foreign[0]})", "choose another directory", file=str(target))


def replace_directory(staging: Path, target: Path) -> None:
    """Rename a directory to ``target``; a directory of that name is replaced, and removed or left as ``staging``."""
    sync_folder(staging)
    if not (target.is_dir() and any(target.iterdir())):
        if WINDOWS and target.is_dir():  # renaming does not replace directories
            target.rmdir()
        os.rename(staging, target)
    elif not _exchange(staging, target):  # two steps; neither directory exists in between
        old = _beside(target, _REPLACED)
        try:
            os.rename(target, old)
            os.rename(staging, target)
        except BaseException:
            if not target.exists():
                os.rename(old, target)
            raise
        sync_folder(target.parent)
        _remove(old, target)
    sync_folder(target.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two directories atomically; False if unsupported, as on macOS and Windows."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


def _beside(target: Path, mark: str) -> Path:
    """A unique temporary name."""
    return target.parent / f".{target.name}{mark}{process_mark()}"
