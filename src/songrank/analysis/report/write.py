"""From folders of runs to one HTML file."""

from collections.abc import Sequence
from pathlib import Path

from songrank.analysis.finished_runs import find_runs
from songrank.analysis.report.contents import gather
from songrank.analysis.report.html import is_replaceable
from songrank.analysis.report.page import GENERATOR, render
from songrank.core.errors import DataError
from songrank.io.files import write_whole


def write_report(
    runs: Sequence[Path],
    output: Path | None = None,
    *,
    data: Path | None = None,
    baseline: str | None = None,
    split: str = "test",
    device: str = "auto",
    overwrite: bool = False,
) -> Path:
    """Write the report of one run, or of several that are compared; where it was written is returned.

    Args:
        runs: folders of runs, or folders of such folders.
        output: the file; ``report.html`` in the folder of the one run, or here if there are several.
        data: where the data set is now, if it was moved.
        baseline: label or run of the method that others are compared with; the first if not given.
        split: whose evaluation it is about.
        device: what models are scored on: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:1"``.
        overwrite: replace a file that is no report.

    >>> write_report([Path("nowhere")])
    Traceback (most recent call last):
    songrank.core.errors.DataError: nowhere: does not exist; expected a folder that `songrank train` wrote

    """
    found = find_runs(runs)
    place = output or (found[0] / "report.html" if len(found) == 1 else Path("report.html"))
    if not (overwrite or is_replaceable(place, GENERATOR, "choose another file with -o")):
        raise DataError("exists and is no report", "choose another file with -o, or say --overwrite", file=str(place))
    write_whole(place, render(gather(found, split=split, data=data, baseline=baseline, device=device)))
    return place
