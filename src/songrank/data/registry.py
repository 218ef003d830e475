"""Registry of data set kinds: source, reader, options, presets, and published statistics."""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from songrank.core.errors import DataError, suggestion

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from songrank.data.content import Content
    from songrank.data.preparation_options import Options
    from songrank.io.source import Job


@dataclass(frozen=True)
class Download:
    """URL, checksums and size of a data set."""

    url: str
    md5: str | None = None
    sha256: str | None = None
    size: int | None = None


@dataclass(frozen=True)
class Kind:
    """A kind of data set; a reader is a function of source, options, job and scratch directory.

    ``reader`` and ``option_class`` are lazy imports, ``module:name``, where a leading dot is relative to this package.
    """

    name: str
    task: str
    title: str
    wants: str
    reader: str
    option_class: str
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"raw": {}})
    default_preset: str = "raw"
    published: tuple[Mapping[str, Any], ...] = ()
    download: Download | None = None
    by_hand: str = ""
    without_source: bool = False
    reads_tables: bool = False
    sorts_on_disk: bool = False

    def options(self, preset: str | None, given: Mapping[str, Any]) -> "Options":
        """Validated options: values of the preset, overridden by given values."""
        preset = preset or self.default_preset
        if preset not in self.presets:
            fix = f"expected {' or '.join(sorted(self.presets))}"
            raise DataError(f"unknown preset {preset!r} for {self.name}", fix)
        checked: Options = _load(self.option_class).read(self.name, {**self.presets[preset], **given})
        return checked

    def run(self, source: Any, options: "Options", job: "Job", scratch: Path) -> "Content":
        """Read the source; ``scratch`` is a directory for temporary files."""
        content: Content = _load(self.reader)(source, options, job, scratch)
        return content

    def flags(self) -> dict[str, bool]:
        """Option names, and whether each is boolean."""
        return {name: field.annotation is bool for name, field in _load(self.option_class).model_fields.items()}

    def current_names(self, given: dict[str, Any], warn: Callable[[str], object]) -> dict[str, Any]:
        """Replace former option names, with a one-line hint for each."""
        renamed: dict[str, Any] = _load(self.option_class).current_names(given, warn)
        return renamed

    def check_names(self, given: Mapping[str, Any]) -> None:
        """Raise if an option is unknown for this kind."""
        known = self.flags()
        if unknown := [name for name in given if name not in known]:
            what = f"unknown option {unknown[0]!r} for {self.name}"
            raise DataError(what, suggestion(unknown[0], sorted(known)))

    def option_table(self, preset: str | None = None) -> list[tuple[str, Any, str]]:
        """Name, default and description of each option; the description ends with the values to choose from."""
        values = self.options(preset, {}).model_dump(mode="json")
        fields = _load(self.option_class).model_fields
        return [(name, values[name], _described(fields[name])) for name in fields]


def _described(option: "FieldInfo") -> str:
    parts = get_args(option.annotation)
    union = any(get_origin(part) is Literal for part in parts)
    choices = [value for part in parts for value in get_args(part)] if union else list(parts)
    if not choices or not all(isinstance(value, str) for value in choices):
        return option.description or ""
    choices += ["none"] if type(None) in parts else []
    return f"{option.description} Choices: {', '.join(choices)}."


def _load(reference: str) -> Any:
    module, _, name = reference.partition(":")
    return getattr(import_module(module, __package__), name)


_LOG = {"paper": {}, "raw": {"split": "none", "duplicates": "keep"}}
_LISTS = {"raw": {}, "paper": {"standardise": True, "log_features": "auto", "missing": "mean", "truncate": 100}}
_TABLES = "a CSV, TSV or Parquet file, a directory of them, or a DataFrame"
_GROUPLENS = "https://files.grouplens.org/datasets/movielens/"
_MSLR = "open https://www.microsoft.com/en-us/research/project/mslr/, accept the terms and download {} in a browser"
_YAHOO = "request C14B (Learning to Rank Challenge) at https://webscope.sandbox.yahoo.com"
_NETFLIX = "log in to https://www.kaggle.com/netflix-inc/netflix-prize-data and download it there"
_MOVIELENS = {
    "100k": ("movielens_tabs", "u.data", "0e33842e24a9c977be4e0107933c0723", 4_924_029),
    "1M": ("movielens_colons", "ratings.dat", "c4d9eecfca2ab87c1945afe126590906", 5_917_549),
    "10M": ("movielens_colons", "ratings.dat", "ce571fd55effeba0271552578f2648bd", 65_566_137),
    "20M": ("movielens_commas", "ratings.csv", "cd245b17a1ae2cc31bb14903e1204af3", 198_702_078),
    "25M": ("movielens_commas", "ratings.csv", "6b51fb2759a8657d3bfcbfc42b592ada", 261_978_986),
    "32M": ("movielens_commas", "ratings.csv", "d472be332d4daa821edc399621853b57", 238_950_008),
}

_PAPER_20M = {"title": "MovieLens20M", "queries": 138_493, "items": 26_744, "pairs": 20_000_263, "sparsity": 0.9946}
_PAPER_NETFLIX = {"title": "Netflix Prize", "queries": 236_117, "items": 17_770, "pairs": 89_973_534}
_PAPER_NETFLIX |= {"sparsity": 0.9786}
_PAPER_MSLR = {"title": "MSLR-WEB30K", "queries": 30_000, "items": 3_771_125, "list_length": {"min": 1, "max": 1_245}}
_PAPER_YAHOO = {"title": "Yahoo! LTR", "queries": 29_921, "items": 709_877, "list_length": {"min": 1, "max": 135}}
_PAPER_YAHOO |= {"splits": {"train": 19_944, "validation": 2_994, "test": 6_983}}
_PAPER_EURLEX = {"title": "EURLex-4K", "items": 3_993, "splits": {"train": 15_539, "test": 3_809}}
_PAPER_EURLEX |= {"labels_per_text": 5.31, "texts_per_label": 25.73}
_PAPER_WIKI10 = {"title": "Wiki10-31K", "items": 30_938, "splits": {"train": 14_146, "test": 6_616}}
_PAPER_WIKI10 |= {"labels_per_text": 18.64, "texts_per_label": 8.52}


def _log(name: str, title: str, wants: str, reader: str, options: str = "RatingOptions", **more: Any) -> Kind:
    """Recommendation from an interaction log."""
    settings: dict[str, Any] = {"presets": _LOG, "default_preset": "paper", **more}
    options = f".preparation_options:{options}"
    return Kind(name, "recommendation", title, wants, f".readers.{reader}", options, **settings)


def _movielens(size: str, reader: str, file: str, md5: str, length: int) -> Kind:
    name = f"ml-{size.lower()}"
    title = f"MovieLens {size}: all ratings, last two per user held out"
    wants, published = f"{name}.zip, its directory, or {file}", (_PAPER_20M,) if size == "20M" else ()
    download = Download(f"{_GROUPLENS}{name}.zip", md5=md5, size=length)
    kind = f"movielens-{size.lower()}"
    return _log(kind, title, wants, f"movielens:{reader}", "MovieLensOptions", published=published, download=download)


def _mslr(size: str, **more: Any) -> Kind:
    file = f"MSLR-WEB{size}.zip"
    title, by_hand = f"Microsoft MSLR-WEB{size}, one fold", _MSLR.format(file)
    return _letor(f"mslr-web{size.lower()}", title, f"{file} or its directory", 100, by_hand=by_hand, **more)


def _letor(name: str, title: str, wants: str, list_size: int | None = None, **more: Any) -> Kind:
    presets = {**_LISTS, "paper": {**_LISTS["paper"], "truncate": list_size or 100}}
    default, options = "raw" if list_size is None else "paper", ".readers.letor:LetorOptions"
    return Kind(name, "search", title, wants, ".readers.letor:letor", options, presets, default, **more)


KINDS = {
    kind.name: kind
    for kind in (
        *(_movielens(size, *details) for size, details in _MOVIELENS.items()),
        _log(
            "netflix",
            "Netflix Prize: users with at least 100 ratings, last two per user held out",
            "a directory or archive with combined_data_*.txt or mv_*.txt",
            "netflix:netflix",
            presets={**_LOG, "paper": {"min_interactions": 100}},
            published=(_PAPER_NETFLIX,),
            by_hand=_NETFLIX,
        ),
        _log(
            "interactions",
            "Interaction log: a table with user, item, and optional rating and time columns",
            f"{_TABLES}; or --train FILE, --validation FILE and --test FILE",
            "interactions:interactions",
            "ColumnOptions",
            reads_tables=True,
            sorts_on_disk=True,
        ),
        _log(
            "sequences",
            "Interaction sequences: one line per user, the user id followed by items in time order",
            "a text file, or archive.zip/file",
            "sequences:sequences",
            "SequenceOptions",
        ),
        Kind(
            "ir-benchmark",
            "recommendation",
            "IR-Benchmark (Amazon-Health, Amazon-Electronic, Gowalla, …): given training and test pairs, without times",
            "a directory or archive with train.tsv and test.tsv per set",
            ".readers.ir_benchmark:ir_benchmark",
            ".readers.ir_benchmark:IrBenchmarkOptions",
        ),
        _letor("letor", "LETOR (svmlight) text with qid:, or with .query files", "a file, directory or archive"),
        _mslr("10K"),
        _mslr("30K", published=(_PAPER_MSLR,)),
        _letor(
            "yahoo-ltr",
            "Yahoo! Learning to Rank, set 1 or 2",
            "its directory or archive",
            40,
            published=(_PAPER_YAHOO,),
            by_hand=_YAHOO,
        ),
        Kind(
            "feature-table",
            "search",
            "Learning to rank: a table with a query column, a label column and features",
            _TABLES,
            ".readers.feature_table:feature_table",
            ".readers.feature_table:FeatureTableOptions",
            _LISTS,
            reads_tables=True,
        ),
        Kind(
            "xmc",
            "labelling",
            "Multi-label classification: Extreme Classification Repository, bag of words",
            "a directory or archive with a train and a test file, or one file",
            ".readers.xmc:xmc",
            ".preparation_options:FeatureRowOptions",
            {"raw": {}, "paper": {}},
            published=(_PAPER_EURLEX, _PAPER_WIKI10),
        ),
        Kind(
            "xmc-text",
            "labelling",
            "Multi-label classification: raw texts, as lines or JSON lines",
            "a directory or archive with train and test files, or one file of JSON lines",
            ".readers.text:xmc_text",
            ".readers.text:TextOptions",
            {"raw": {}, "paper": {}},
            published=(_PAPER_EURLEX, _PAPER_WIKI10),
            reads_tables=True,
        ),
        Kind(
            "label-table",
            "labelling",
            "Multi-label classification: a table with features and a column of label lists",
            "a Parquet file or a DataFrame",
            ".readers.label_table:label_rows",
            ".readers.label_table:LabelTableOptions",
            reads_tables=True,
        ),
        Kind(
            "arff",
            "labelling",
            "Multi-label classification: ARFF files of Mulan and MEKA",
            "a directory or archive with .arff files and the .xml file of labels",
            ".readers.arff:arff",
            ".readers.arff:ArffOptions",
        ),
    )
}


def all_kinds() -> dict[str, Kind]:
    """Built-in kinds and those of plug-ins, from entry points ``songrank.data_kinds``."""
    return KINDS | {kind.name: kind for kind in (entry.load() for entry in entry_points(group="songrank.data_kinds"))}


def find_kind(name: str) -> Kind:
    """Look up a kind; raise a ``DataError`` with close matches if it is unknown."""
    if name in KINDS:
        return KINDS[name]
    kinds = all_kinds()
    if name in kinds:
        return kinds[name]
    near = difflib.get_close_matches(str(name), kinds, n=3)
    fix = f"did you mean {' or '.join(near)}?" if near else "see `songrank data list`"
    raise DataError(f"unknown data set kind {name!r}", fix)
