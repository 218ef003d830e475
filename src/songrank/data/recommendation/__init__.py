"""Interactions to prepared data sets: MovieLens, Netflix, tables, sequences."""
