"""Readers of the supported file formats: from a source to the content of a prepared data set."""
