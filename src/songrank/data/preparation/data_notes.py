"""Notes about a prepared data set, one line each: what a user may not expect of legal data."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from songrank.core.ids import Ids
from songrank.core.text import counted
from songrank.data.preparation.given_splits import held_out_notes

_MISSING = (
    "None",
    "none",
    "NONE",
    "NaN",
    "nan",
    "NAN",
    "NULL",
    "null",
    "Null",
    "NA",
    "N/A",
    "<NA>",
    "NaT",
    "undefined",
)
REPEATED = "repeated pairs"
"""The count of dropped duplicates among those of ``Job.count``."""
FIRST_INFINITE = 128
"""The first whole label y whose gain 2^y − 1 is infinite in float32."""
_LARGE = 24  # beside 2^24 the gain of label 1 is lost in float32
_SCALE = 10  # the largest rating of the usual scales


def data_notes(info: Mapping[str, Any]) -> list[str]:
    """Notes about the contents of ``dataset.json``: ids, features, dropped pairs, low ratings, large labels."""
    return [
        *_missing_ids(info),
        *_features(info),
        *_cold(info),
        *held_out_notes(info),
        *_duplicates(info),
        *_low_ratings(info),
        *_large_labels(info),
    ]


def _features(info: Mapping[str, Any]) -> list[str]:
    """The columns of the tables of items and users.

    >>> told = {"columns": [{"name": "genres", "kind": "multi-valued"}], "without_pairs": 2, "without_row": 1}
    >>> _features({"item_features": told})
    ['item features: genres (multi-valued); 2 items without interactions are candidates; 1 item has no features']
    """
    notes = []
    for word in ("item", "user"):
        told = info.get(f"{word}_features")
        if told is None:
            continue
        columns = ", ".join(f"{column['name']} ({column['kind']})" for column in told["columns"])
        parts = [f"{word} features: {columns}"]
        if told["without_pairs"]:
            role = "are candidates" if word == "item" else "are included"
            parts.append(f"{counted(told['without_pairs'], f'{word}s')} without interactions {role}")
        if told["without_row"]:
            has = "has" if told["without_row"] == 1 else "have"
            parts.append(f"{counted(told['without_row'], f'{word}s')} {has} no features")
        notes.append("; ".join(parts))
    return notes


def _cold(info: Mapping[str, Any]) -> list[str]:
    """Held-out items.

    >>> _cold({"cold": {"test": {"items": 370, "pairs": 90125}}})
    ['cold items: 370 with 90,125 pairs for test, none of them in training']
    """
    parts = [f"{n['items']:,} with {n['pairs']:,} pairs for {split}" for split, n in info.get("cold", {}).items()]
    return [f"cold items: {', '.join(parts)}, none of them in training"] if parts else []


def missing_ids(users: Ids, items: Ids) -> dict[str, list[str]]:
    """Ids that may stand for missing values, by role.

    >>> missing_ids(Ids.of(["None", "u1"]), Ids.of(["i1", "i2"]))
    {'user': ['None']}
    """
    found = {
        role: [word for word in _MISSING if ids.has_text(word)] for role, ids in (("user", users), ("item", items))
    }
    return {role: words for role, words in found.items() if words}


def _missing_ids(info: Mapping[str, Any]) -> list[str]:
    """Ids such as None, which are accepted.

    >>> _missing_ids({"made": {"missing_ids": {"user": ["None", "nan"]}}})
    ["the user ids include 'None' and 'nan', each as one user; if these are missing values, remove their rows"]
    """
    found = info.get("made", {}).get("missing_ids", {})
    return [
        f"the {role} ids include {' and '.join(map(repr, words))}, each as one {role}; "
        "if these are missing values, remove their rows"
        for role, words in found.items()
    ]


def large_label(info: Mapping[str, Any]) -> float:
    """The largest label, or a bound on it if there are many distinct ones.

    >>> large_label({"labels": {"1": 5, "1000": 2}}), large_label({"labels": {"1–10.9": 5, "10.9–20": 2}})
    (1000.0, 20.0)
    """
    return max((float(label.rpartition("–")[2]) for label in info.get("labels", {})), default=0.0)


def _duplicates(info: Mapping[str, Any]) -> list[str]:
    made = info.get("made", {})
    dropped, kept = made.get("left_out", {}).get(REPEATED), made.get("options", {}).get("duplicates", "last")
    word = {"max": "highest rated"}.get(kept, kept)
    return [f"dropped {counted(dropped, REPEATED)} of a user and an item; the {word} is kept"] if dropped else []


def _low_ratings(info: Mapping[str, Any]) -> list[str]:
    """Ratings below the middle of their scale that count as relevant.

    >>> told = {"task": "recommendation", "labels": {"1": 6110, "2": 11370, "3": 27145, "4": 34174, "5": 21201}}
    >>> _low_ratings(told)
    ['17,480 of 100,000 ratings (17.5%) are 1 or 2 of 5 and count as relevant; min_rating=3 leaves them out']
    """
    chosen = info.get("made", {}).get("options", {}).get("min_rating") is not None
    if info.get("task") != "recommendation" or chosen:
        return []
    counts: dict[float, int] = {}
    with suppress(ValueError):  # of bins: there are many distinct labels
        counts = {float(label): int(number) for label, number in info.get("ratings", info["labels"]).items()}
    ratings = sorted(rating for rating in counts if rating > 0)
    if len(ratings) < 3 or ratings[-1] > _SCALE:  # counts or weights, not ratings
        return []
    low = [rating for rating in ratings if rating < (ratings[0] + ratings[-1]) / 2]
    rows, total = sum(counts[rating] for rating in low), sum(counts[rating] for rating in ratings)
    if 2 * rows > total:  # numbers of visits, which are mostly 1
        return []
    *some, last = (f"{rating:g}" for rating in low)
    which = f"{', '.join(some)} or {last}" if some else last
    share = f"{rows:,} of {total:,} ratings ({rows / total:.1%}) are {which} of {ratings[-1]:g}"
    return [f"{share} and count as relevant; min_rating={ratings[len(low)]:g} leaves them out"]


def _large_labels(info: Mapping[str, Any]) -> list[str]:
    """Labels whose gain 2^y − 1 float32 cannot add to that of other labels.

    >>> _large_labels({"labels": {"1": 9, "1000": 2}})
    ['labels reach 1,000; the gain 2^y − 1 is infinite in float32 from y = 128 on: train with gain=linear']
    """
    most = large_label(info)
    if most <= _LARGE:
        return []
    if most < FIRST_INFINITE:
        why = "beside such a label, the gain 2^y − 1 of label 1 is lost in float32: train with gain=linear"
    else:
        why = f"the gain 2^y − 1 is infinite in float32 from y = {FIRST_INFINITE} on: train with gain=linear"
    other = ", or prepare with labels=binary" if info.get("task") == "recommendation" else ""
    return [f"labels reach {most:,g}; {why}{other}"]
