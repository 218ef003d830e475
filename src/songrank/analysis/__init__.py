"""Comparison, ensembles, tuning and reports of runs."""
