"""Published values of the paper's tables on test: mean and standard deviation over three seeds."""

from __future__ import annotations

_ORDER = ("ranknet", "listnet", "listmle", "lambdarank", "approx-ndcg", "neural-ndcg", "song", "k-song")
_LABELLING = ("bce", "approx-ndcg", "neural-ndcg", "song", "k-song")


def _with_sd(text: str) -> dict[str, list[str]]:
    """Lines of ``mean sd mean sd …``, one per method, in units of 1e-4."""
    lines = [line.split() for line in text.strip().splitlines()]
    return {
        name: [f"{int(mean) / 1e4:.4f} ± {int(sd) / 1e4:.4f}" for mean, sd in zip(line[::2], line[1::2], strict=True)]
        for name, line in zip(_ORDER, lines, strict=True)
    }


def _percent(*rows: str) -> dict[str, list[str]]:
    """A row per metric with a value per method, in per cent."""
    columns = zip(*(row.split() for row in rows), strict=True)
    return {
        name: [f"{float(value) / 100:.4f}" for value in values]
        for name, values in zip(_LABELLING, columns, strict=True)
    }


_EURLEX = _percent("67.15 66.59 67.68 67.84 68.11", "61.13 60.23 61.86 61.32 61.74")
_WIKI10 = _percent("71.26 71.49 71.52 72.90 74.01", "63.23 62.43 62.85 65.10 66.15")

PUBLISHED: dict[str, dict[str, list[str]]] = {
    "mslr-web30k": _with_sd("""
        5138 8 5105 4 5159 3
        5105 1 5058 1 5146 2
        5153 12 5074 2 5136 5
        5173 14 5118 3 5187 3
        5204 7 5114 5 5179 6
        5160 6 5101 5 5155 2
        5265 5 5136 6 5206 3
        5271 6 5147 6 5204 3
    """),
    "yahoo-ltr": _with_sd("""
        7066 6 7150 4 7368 5
        7066 2 7151 4 7352 4
        7067 8 7146 6 7353 7
        7084 3 7155 2 7352 4
        7085 9 7152 7 7350 6
        7076 3 7139 1 7349 3
        7131 2 7187 4 7390 2
        7128 4 7191 4 7394 8
    """),
    "movielens-20m": _with_sd("""
        538 11 744 13 1086 13
        660 3 875 4 1227 3
        588 1 799 1 1137 1
        697 1 913 2 1259 1
        735 5 938 3 1284 2
        692 3 901 3 1232 7
        748 2 969 2 1326 1
        747 2 973 3 1340 1
    """),
    "netflix": _with_sd("""
        362 2 489 3 730 3
        532 2 700 2 992 2
        376 3 508 4 753 1
        531 2 693 2 976 3
        434 5 592 9 873 12
        554 2 718 3 1003 2
        571 2 749 2 1050 3
        573 3 743 3 1042 1
    """),
    "eurlex-4k": _EURLEX,
    "eurlex-4k-text": _EURLEX,
    "wiki10-31k": _WIKI10,
    "wiki10-31k-text": _WIKI10,
}
"""By set, then by loss: a value per metric of the task, as ``mean ± sd`` (without sd for multi-label data)."""


def _pairs(text: str) -> dict[str, dict[str, dict[str, float]]]:
    """Lines of a loss and its Recall@20 and NDCG@20, in units of 1e-4, on the three sets of IR-Benchmark."""
    found: dict[str, dict[str, dict[str, float]]] = {"ir-health": {}, "ir-electronic": {}, "ir-gowalla": {}}
    for name, *values in (line.split() for line in text.strip().splitlines()):
        numbers = [int(value) / 1e4 for value in values]
        for own, recall, ndcg in zip(found.values(), numbers[::2], numbers[1::2], strict=True):
            own[name] = {"ndcg@20": ndcg, "recall@20": recall}
    return found


IR_BENCHMARK = {
    "mf": _pairs("""
        bpr      1627 1234  816 527 1355 1111
        softmax  1719 1261  821 529 2064 1624
        bsl      1719 1261  834 530 2071 1630
        psl      1718 1268  838 541 2089 1647
        sl-at-k  1823 1390  901 590 2121 1709
        k-song    874  650  708 444 1237  970
    """),
    "lightgcn": _pairs("""
        bpr      1618 1203  813 524 1745 1402
        softmax  1691 1235  823 526 2068 1628
        bsl      1691 1236  823 526 2069 1628
        psl      1701 1270  830 536 2086 1648
        sl-at-k  1783 1371  903 591 2128 1729
        k-song   1353  960  816 511 1261  968
    """),
}
"""Test values printed with SL@K (Yang et al., KDD 2025), by backbone, set and method; ``k-song`` is its SONG@20."""
