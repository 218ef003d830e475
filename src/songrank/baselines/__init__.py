"""Baseline models: recommenders without a neural network, fitted in minutes.

``measure`` fits one to a data set, chooses its options on validation, and evaluates it like a run;
``songrank compare --baseline-model`` compares it with runs.
"""

from songrank.baselines.binary_histories import histories
from songrank.baselines.ease import Ease
from songrank.baselines.evaluate import BASELINES, Measured, measure
from songrank.baselines.ials import ImplicitALS
from songrank.baselines.popularity import Popularity

__all__ = ["BASELINES", "Ease", "ImplicitALS", "Measured", "Popularity", "histories", "measure"]
