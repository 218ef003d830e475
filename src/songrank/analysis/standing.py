"""How good a model is: its validation metric beside those of popularity and EASE."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from songrank.analysis.finished_runs import FinishedRun
from songrank.analysis.kept_baselines import measure_once
from songrank.data import CatalogueSplit, Dataset
from songrank.metrics import Evaluation
from songrank.metrics.comparison import Difference, paired_difference
from songrank.models.ease import SEARCH_DENSE_ITEMS
from songrank.training.build import policies
from songrank.training.config.recipe import Recipe

EASE_ITEMS = SEARCH_DENSE_ITEMS
"""Largest catalogue for which EASE is fitted to compare with; above, it takes more than seconds."""
_POPULARITY, _EASE = "popularity", "ease"
_TITLES = {_POPULARITY: "popularity", _EASE: "EASE"}
_ADVICE = "Recommender() and `songrank train auto` try several models and blend them"


@dataclass(frozen=True)
class Standing:
    """A validation metric of a model beside those of baselines, and the paired differences to them.

    >>> gap = Difference(-0.01, -0.015, -0.005, 0.95, 0.0025, 99.0, 10, 0, 90, False, False, False)
    >>> found = Standing("ndcg@10", 0.03, {"popularity": 0.01, "EASE": 0.04}, {"EASE": gap})
    >>> print(found.line())
    validation ndcg@10: 0.0300, beside popularity 0.0100 and EASE 0.0400
    >>> found.warning().partition(";")[0]
    'the model is below EASE on validation: ndcg@10 -0.0100 [-0.0150, -0.0050]'
    """

    metric: str
    value: float
    beside: Mapping[str, float]
    differences: Mapping[str, Difference]
    skipped: str = ""
    """Why a baseline is missing; empty if none is."""
    advice: str = _ADVICE

    def line(self) -> str:
        """One line with all values."""
        values = " and ".join(f"{name} {value:.4f}" for name, value in self.beside.items())
        more = f" ({self.skipped})" if self.skipped else ""
        return f"validation {self.metric}: {self.value:.4f}, beside {values}{more}"

    def warning(self) -> str:
        """One line if the model is below a baseline, with 95 % intervals; empty if it is not."""
        below = {name: gap for name, gap in self.differences.items() if gap.mean < 0}
        if not below:
            return ""
        gaps = [f"{gap.mean:+.4f} [{gap.low:+.4f}, {gap.high:+.4f}]" for gap in below.values()]
        words = ", and ".join(gaps)
        within = ", which is not significant" if all(gap.high >= 0 for gap in below.values()) else ""
        where = f"the model is below {' and '.join(below)} on validation"
        return f"{where}: {self.metric} {words}{within}; {self.advice}"


def standing(
    dataset: Dataset,
    recipe: Recipe,
    found: Evaluation | None,
    *,
    known: Mapping[str, FinishedRun] | None = None,
    advice: str = _ADVICE,
) -> Standing | None:
    """Compare the validation metrics of a model with popularity, and with EASE for catalogues of up to 4,000 items.

    None for data sets that are not for recommendation, or without a validation metric.

    Args:
        dataset: the data set; baselines are fitted to its training split, once.
        recipe: the recipe of the model, for the metric and the policies.
        found: metrics of the model on validation.
        known: runs of baselines, by name, with their metrics on validation.
        advice: what to do if the model is below a baseline.
    """
    train, metric = dataset.get("train"), recipe.validation.metric
    if found is None or found.candidates is not None or dataset.task != "recommendation":
        return None
    metric = metric if metric in found.values else next(iter(found.values))
    if math.isnan(found.values[metric]) or not isinstance(train, CatalogueSplit):
        return None
    values = {name: run.per_query[metric] for name, run in (known or {}).items()}
    names, skipped = [_POPULARITY], ""
    if recipe.blend is not None or not recipe.closed_form:  # else the model is EASE itself
        if _EASE in values or train.num_items <= EASE_ITEMS:
            names.append(_EASE)
        else:
            skipped = f"EASE is not fitted for more than {EASE_ITEMS:,} items"
    for name in names:
        if name not in values:
            told = {"select": metric, "metrics": [metric], **policies(recipe)}
            values[name] = measure_once(name, dataset, "validation", **told).evaluation.per_query[metric]
    own = found.per_query[metric].cpu().flatten()
    gaps = {_TITLES[name]: paired_difference(own, values[name].cpu().flatten()) for name in names}
    beside = {_TITLES[name]: float(values[name].nanmean()) for name in names}
    return Standing(metric, found.values[metric], beside, gaps, skipped, advice)
