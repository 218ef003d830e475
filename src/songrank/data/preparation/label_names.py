"""Labels as a source writes them, whole numbers or names, and the catalogue that they make."""

import re
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from songrank.core.columns import Array
from songrank.core.errors import DataError, shown
from songrank.core.ids import Ids
from songrank.data.preparation.labelled_queries import MAX_LABELS

_NUMBER = re.compile("0|[1-9][0-9]{0,8}")


class LabelNames:
    """Gives each label a code when it is first met, remembers where that was, and numbers them all in the end.

    >>> names = LabelNames()
    >>> [names.code(label, "train.json", line) for line, label in enumerate(["tax", "law", "tax"], 1)]
    [0, 1, 0]
    >>> ids, number = names.finish(None)
    >>> list(ids), number.tolist()
    (['law', 'tax'], [1, 0])
    """

    def __init__(self) -> None:
        self._codes: dict[str | int, int] = {}
        self._where: list[tuple[str, int]] = []

    def code(self, label: str | int, file: str, line: int) -> int:
        """The code of a label that stands in this line."""
        code = self._codes.setdefault(label, len(self._codes))
        if code == len(self._where):
            self._where.append((file, line))
        return code

    def finish(self, catalogue: Sequence[str] | None, *, numbers_are_texts: bool = False) -> tuple[Ids, Array]:
        """The ids of the catalogue, and the number of each code in it.

        Args:
            catalogue: names of all labels in the order of their numbers, where the source has them. Otherwise whole
                numbers make a catalogue of as many labels as the largest says, and names one of those that occur.
            numbers_are_texts: texts that are all whole numbers count as such, since their format has only texts.

        """
        labels = list(self._codes)
        numbers = self._as_numbers(labels, numbers_are_texts)
        if catalogue is None:
            if numbers is not None:
                return Ids.count(max(numbers, default=-1) + 1), np.array(numbers, np.int32)
            catalogue = [str(label) for label in labels]
        if numbers is None:
            known = {name: number for number, name in enumerate(catalogue)}
            numbers = [known.get(str(label), -1) for label in labels]
        for code, number in enumerate(numbers):
            if not 0 <= number < len(catalogue):
                what = f"label {shown(labels[code])} is not one of the {len(catalogue):,} in the list of labels"
                self._fail(code, what, "complete that list, or take it away")
        order = sorted(range(len(catalogue)), key=lambda number: catalogue[number].encode())
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order))
        return Ids.from_texts([catalogue[number] for number in order]), place[np.array(numbers, np.int64)]

    def _as_numbers(self, labels: Sequence[str | int], numbers_are_texts: bool) -> list[int] | None:
        """All labels as whole numbers, or None if they are names; raises if some are this and some that."""
        if numbers_are_texts:
            return [int(label) for label in labels] if all(map(_is_number, labels)) else None
        texts = [isinstance(label, str) for label in labels]
        if any(texts):
            if not all(texts):
                odd = texts.index(not texts[0])
                what = f"label is {shown(labels[odd])}, but {shown(labels[0])} before it"
                self._fail(odd, what, "write all labels as whole numbers, or all as texts")
            return None
        for code, label in enumerate(labels):
            if not _is_number(label):
                fix = f"expected a number from 0 to {MAX_LABELS - 1:,}; write ids as texts"
                self._fail(code, f"label is {shown(label)}", fix)
        return [int(label) for label in labels]

    def _fail(self, code: int, what: str, fix: str) -> NoReturn:
        file, line = self._where[code]
        raise DataError(what, fix, file=file, line=line)


def _is_number(label: str | int) -> bool:
    """Whether it is a number that a label can have, written as Python writes it."""
    if isinstance(label, int):
        return 0 <= label < MAX_LABELS
    return _NUMBER.fullmatch(label) is not None and int(label) < MAX_LABELS
