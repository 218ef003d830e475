"""Exact metrics."""
