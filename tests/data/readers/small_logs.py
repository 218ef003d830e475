"""Helpers that tests of several modules share."""

import io

import polars as pl

from songrank.data import prepare
from tests.data.folders import contents

ROWS = {
    "user": ["u2", "u1", "u1", "u2", "u1", "u2"],
    "item": ["ä", "b", "c", "b", "a,b", "c"],
    "rating": [1.0, 2.0, 3.5, 4.0, 5.0, 0.5],
    "time": [30, 1, 2, 20, 3, 10],
}


def _parquet():
    stream = io.BytesIO()
    pl.DataFrame(ROWS).write_parquet(stream)
    return stream.getvalue()


def prepared(tmp_path, table, **options):
    return prepare("interactions", table, tmp_path / "set", overwrite=True, **options)


def arrays(folder):
    return {name: data for name, data in contents(folder).items() if name.endswith(".safetensors")}
