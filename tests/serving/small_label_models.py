"""Helpers that tests of several modules share."""

import polars as pl


def read(file):
    return (pl.read_csv if file.suffix == ".csv" else pl.read_parquet)(file)
