"""Baselines: recommenders without a deep model, fitted in minutes, that show whether one pays.

``measure`` fits one to a data set, chooses its options on validation, and evaluates it as runs are evaluated;
``songrank compare --yardstick`` puts it beside runs.
"""

from songrank.baselines.binary_histories import histories
from songrank.baselines.ease import Ease
from songrank.baselines.evaluate import BASELINES, Measured, measure
from songrank.baselines.ials import ImplicitALS
from songrank.baselines.popularity import Popularity

__all__ = ["BASELINES", "Ease", "ImplicitALS", "Measured", "Popularity", "histories", "measure"]
