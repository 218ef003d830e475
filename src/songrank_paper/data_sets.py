"""Data sets of the experiments: those of the paper, substitutes, and synthetic shapes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from songrank.data import Dataset
from songrank.data.registry import KINDS


@dataclass(frozen=True)
class PaperSet:
    """A data set of ``--data NAME=PATH``.

    Args:
        name: name of the set, also that of the included recipe if there is one.
        task: ``"recommendation"``, ``"search"`` or ``"labelling"``.
        title: title in tables.
        kind: kind of the raw files, a name of ``songrank data list``.
        options: options of the preparation.
        file: name of the file in an archive or directory with several files.
        stands_for: the paper's set that it substitutes; empty for sets of the paper.
        shape: options of synthetic data of this shape; None if there is no such data.
        small: changes of these options for a quick run.
        benchmark: the experiment of its own that it belongs to; empty for the sets of the paper's tables and figures.

    >>> SETS["movielens-1m"].stands_for, SETS["movielens-20m"].published["items"]
    ('movielens-20m', 26744)
    """

    name: str
    task: str
    title: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""
    stands_for: str = ""
    shape: Mapping[str, Any] | None = None
    small: Mapping[str, Any] = field(default_factory=dict)
    benchmark: str = ""

    @property
    def group(self) -> str:
        """The sets that are used together: those of a benchmark, or of a task."""
        return self.benchmark or self.task

    @property
    def published(self) -> Mapping[str, Any]:
        """Published statistics of this set; may be empty."""
        known = KINDS[self.kind].published if not self.stands_for else ()
        return next((figures for figures in known if figures["title"] == self.title), {})


IR_BENCHMARK = "ir-benchmark"
_HELD_OUT = {"validation": 0.1}
_BAG = {**_HELD_OUT, "scale": "log-l2"}
_WITHIN = {"standardise": True, "within_query": "z-rank"}


def _catalogue(name: str, title: str, queries: int, items: int, pairs: int, file: str) -> PaperSet:
    shape = {"shape": "movielens-1m", "queries": queries, "items": items, "pairs": pairs}
    small = {"queries": 600, "items": 400, "pairs": 9 * 600}
    return PaperSet(name, "recommendation", title, "sequences", {}, file, "movielens-20m", shape, small)


def _shaped(name: str, task: str, title: str, of: str = "", small: Mapping[str, Any] | None = None) -> PaperSet:
    """A set with a kind and a synthetic shape of the same name."""
    return PaperSet(name, task, title, name, stands_for=of, shape={"shape": name}, small=small or {})


def _ir_benchmark(name: str, folder: str, title: str, shape: Mapping[str, Any] | None = None) -> PaperSet:
    small = {"queries": 300, "items": 150, "pairs": 6_000} if shape else {}
    options = {"set": folder, **_HELD_OUT}
    return PaperSet(name, "recommendation", title, IR_BENCHMARK, options, "", "", shape, small, IR_BENCHMARK)


_FEW_USERS = {"queries": 600, "items": 400, "pairs": 24_000}
_FEW_TEXTS = {"queries": 1_200, "items": 300, "pairs": 6_400, "features": 1_000, "words": 60}
_FEW_LISTS = {"queries": 240, "items": 9_600, "features": 46}
_HEALTH = {"shape": "movielens-1m", "queries": 1_974, "items": 1_200, "pairs": 48_189}
_MQ = {"shape": "mslr-web30k", "features": 46}
_BIBTEX = {"shape": "eurlex-4k", "queries": 7_395, "items": 159, "pairs": 17_762, "features": 1_836, "words": 69}

SETS: Mapping[str, PaperSet] = {
    known.name: known
    for known in (
        _shaped("movielens-20m", "recommendation", "MovieLens20M", small=_FEW_USERS),
        _shaped("netflix", "recommendation", "Netflix Prize", small={**_FEW_USERS, "items": 300}),
        _shaped("movielens-1m", "recommendation", "MovieLens-1M", "movielens-20m", _FEW_USERS),
        _shaped("movielens-100k", "recommendation", "MovieLens-100k", "movielens-20m", _FEW_USERS),
        _catalogue("amazon-beauty", "Amazon Beauty", 22_363, 12_101, 198_502, "Beauty.txt"),
        _catalogue("amazon-sports", "Amazon Sports", 35_598, 18_357, 296_337, "Sports_and_Outdoors.txt"),
        _catalogue("yelp", "Yelp", 30_431, 20_033, 316_354, "Yelp.txt"),
        _shaped("mslr-web30k", "search", "MSLR-WEB30K", small={"queries": 240, "items": 9_600}),
        _shaped("yahoo-ltr", "search", "Yahoo! LTR", small={"queries": 300, "items": 7_200, "features": 100}),
        _shaped("mslr-web10k", "search", "MSLR-WEB10K", "mslr-web30k", {"queries": 240, "items": 9_600}),
        PaperSet(
            "mslr-sample",
            "search",
            "MSLR-WEB10K, first queries",
            "letor",
            {"preset": "paper", "validation": 0.2},
            stands_for="mslr-web30k",
            shape={"shape": "mslr-web10k", "queries": 86, "items": 10_000},
        ),
        PaperSet(
            "mq2008",
            "search",
            "MQ2008, fold 1",
            "letor",
            _WITHIN,
            stands_for="mslr-web30k",
            shape={**_MQ, "queries": 784, "items": 15_211},
            small=_FEW_LISTS,
        ),
        PaperSet(
            "mq2007-agg",
            "search",
            "MQ2007-agg, fold 1",
            "letor",
            {**_WITHIN, "missing": "mean"},
            stands_for="yahoo-ltr",
            shape={**_MQ, "queries": 1_692, "items": 69_623, "features": 21},
            small={**_FEW_LISTS, "features": 21},
        ),
        PaperSet("eurlex-4k", "labelling", "EURLex-4K", "xmc", _BAG, shape={"shape": "eurlex-4k"}, small=_FEW_TEXTS),
        PaperSet(
            "wiki10-31k",
            "labelling",
            "Wiki10-31K",
            "xmc",
            _BAG,
            shape={"shape": "wiki10-31k"},
            small={**_FEW_TEXTS, "items": 600, "pairs": 12_000},
        ),
        PaperSet("eurlex-4k-text", "labelling", "EURLex-4K", "xmc-text", _HELD_OUT),
        PaperSet("wiki10-31k-text", "labelling", "Wiki10-31K", "xmc-text", _HELD_OUT),
        PaperSet("bibtex", "labelling", "Bibtex", "arff", _HELD_OUT, "", "eurlex-4k", _BIBTEX, _FEW_TEXTS),
        _ir_benchmark("ir-health", "amazon2014-health", "Amazon-Health", _HEALTH),
        _ir_benchmark("ir-electronic", "amazon2014-electronic", "Amazon-Electronic"),
        _ir_benchmark("ir-gowalla", "gowalla", "Gowalla"),
    )
}
"""All sets by name. Bags of words have the titles of the paper too, since only the input differs."""


def describe_set(name: str, dataset: Dataset) -> str:
    """A line about the data under a name: the set, a substitute, or synthetic data.

    >>> import tempfile
    >>> from songrank.data import prepare
    >>> dataset = prepare("synthetic", None, tempfile.mkdtemp() + "/some", queries=60, items=80, pairs=900)
    >>> describe_set("movielens-20m", dataset)
    'movielens-20m: synthetic data (60 users, 80 items, 900 pairs) instead of MovieLens20M'
    """
    known = SETS[name]
    queries, items = {
        "recommendation": ("users", "items"),
        "search": ("queries", "documents"),
        "labelling": ("texts", "labels"),
    }[known.task]
    size = f"{dataset.num_queries:,} {queries}, {dataset.num_items:,} {items}, {dataset.num_pairs:,} pairs"
    if dataset.name == "synthetic":
        return f"{name}: synthetic data ({size}) instead of {known.title}"
    instead = f"; substitute for {SETS[known.stands_for].title}" if known.stands_for else ""
    return f"{name}: {known.title} ({size}){instead}"
