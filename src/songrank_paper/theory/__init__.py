"""The paper's theorems on a small problem where F and ∇F are computed exactly: ``songrank paper theory``."""

from songrank_paper.theory.experiment import Theory

__all__ = ["Theory"]
