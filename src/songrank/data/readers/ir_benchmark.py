"""IR-Benchmark: a folder per set with the user and item pairs of ``train.tsv`` and ``test.tsv``, without times."""

from pathlib import Path

from pydantic import Field

from songrank.core.errors import DataError
from songrank.data.content import Content
from songrank.data.preparation.interaction_log import to_catalogue
from songrank.data.preparation_options import Options, RatingOptions
from songrank.data.readers.interactions import Collector, InteractionColumns
from songrank.data.split_names import inner_path
from songrank.io.source import Job, Source, find_sources
from songrank.io.tables.input_table import InputTable

_FILES = {"train": "train.tsv", "test": "test.tsv"}
_COLUMNS = InteractionColumns("user_procid", "item_procid", None, None)


class IrBenchmarkOptions(Options):
    """Options of IR-Benchmark."""

    set: str | None = Field(None, description="Folder of the set, if there are several, e.g. amazon2014-health.")
    validation: float = Field(
        0.1, ge=0, lt=1, description="Fraction of each user's training pairs for validation; 0 trains on all pairs."
    )
    seed: int = Field(0, ge=0, lt=2**63, description="Random seed of the choice of validation pairs.")


def ir_benchmark(source: Path, options: IrBenchmarkOptions, job: Job, scratch: Path) -> Content:
    """Read the training and the test file of one set."""
    name, files = _choose(source, options.set)
    collector = Collector(_COLUMNS)
    for split, file in files.items():
        table = InputTable(file, job)
        if not set(_COLUMNS.all) <= set(table.columns):
            found, wanted = (", ".join(map(repr, columns)) for columns in (table.columns, _COLUMNS.all))
            raise DataError(f"the first line has columns {found}", f"expected {wanted}", file=table.name, line=1)
        for block in table.blocks(_COLUMNS.all):
            collector.add(block, split)
    content = to_catalogue(collector.finish(), RatingOptions(seed=options.seed), job, options.validation)
    content.extra["source"] = {"set": name}
    return content


def _choose(source: Path, name: str | None) -> tuple[str, dict[str, Source]]:
    """The name and the files by split of the set called ``name``, or of the only one."""
    sets: dict[Path, dict[str, Source]] = {}
    for file in find_sources(source, list(_FILES.values()), "train.tsv"):
        sets.setdefault(inner_path(file, source).parent, {})[file.file_name.lower()] = file
    names = {(folder.name or source.stem): folder for folder in sets}
    if len(names) < len(sets):
        raise DataError("contains two sets in folders of the same name", "pass one of the folders", file=str(source))
    chosen = name if name is not None or len(names) > 1 else next(iter(names))
    if chosen not in names:
        what = f"contains {len(names)} sets" if chosen is None else f"contains no set {chosen!r}"
        raise DataError(what, f"pass --set with one of {', '.join(sorted(names))}", file=str(source))
    files = {split: sets[names[chosen]].get(file) for split, file in _FILES.items()}
    if missing := [_FILES[split] for split, file in files.items() if file is None]:
        raise DataError(f"set {chosen} has no {missing[0]}", "expected train.tsv and test.tsv", file=str(source))
    return chosen, {split: file for split, file in files.items() if file is not None}
