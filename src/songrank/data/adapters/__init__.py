"""Adapters from in-memory data (numpy, scipy, pandas, polars, Arrow) to what preparation reads."""
