"""Adapters from in-memory data (numpy, scipy, pandas, polars, Arrow) to inputs of preparation."""
