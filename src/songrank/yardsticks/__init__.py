"""Yardsticks: recommenders without a deep model, fitted in minutes, that show whether one pays.

``measure`` fits one to a data set, chooses its options on validation, and evaluates it as runs are evaluated;
``songrank compare --yardstick`` puts it beside runs.
"""

from songrank.yardsticks.ease import Ease
from songrank.yardsticks.evaluate import YARDSTICKS, Measured, measure
from songrank.yardsticks.histories import histories
from songrank.yardsticks.ials import ImplicitALS
from songrank.yardsticks.popularity import Popularity

__all__ = ["YARDSTICKS", "Ease", "ImplicitALS", "Measured", "Popularity", "histories", "measure"]
