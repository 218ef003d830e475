"""Batch inference with Spark: a songrank model in ``mapInPandas``.

Run ``python examples/spark_data.py``; Spark needs Java 17 or later. It trains a small model, recommends and ranks with
one process and with Spark, and compares. In production the model folder is on storage that all machines share.
"""

import tempfile
from pathlib import Path

import polars as pl
from pyspark.sql import SparkSession

from songrank import DocumentRanker, Recommender
from songrank.serving import BatchPredictor

USERS, ITEMS, QUERIES = 400, 50, 60


def train(folder: Path) -> pl.DataFrame:
    """Save a model of users and one of documents; return new documents."""
    rows = range(8 * USERS)
    clicks = {"user": [n // 8 for n in rows], "item": [(n * n + 3 * n // 8) % ITEMS for n in rows]}
    Recommender(model="ease", verbose=0).fit(clicks).save(folder / "recommender")
    lists = [(query, n) for query in range(QUERIES) for n in range(6)]
    table = [(query, (query * n * 7) % 11 / 11, (query + 5 * n) % 13 / 13) for query, n in lists]
    documents = pl.DataFrame(table, schema=["query", "price", "age"], orient="row")
    labels = (documents["price"] > 0.5).cast(pl.Float64).to_numpy()
    features = documents.select("price", "age").to_pandas()
    DocumentRanker(epochs=2, verbose=0).fit(features, labels, group=[6] * QUERIES).save(folder / "ranker")
    return documents


def main() -> None:
    place = Path(tempfile.mkdtemp())
    documents = train(place)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", False).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    predictor = BatchPredictor(place / "recommender", k=5)
    users = spark.range(USERS).withColumnRenamed("id", "user").repartition(4)
    schema = "user bigint, item bigint, score float, rank bigint, source string"
    found = pl.DataFrame(users.mapInPandas(predictor.over, schema).toPandas())
    alone, order = predictor(pl.DataFrame({"user": range(USERS)})), ["user", "rank"]
    assert found.sort(order).drop("score").equals(alone.sort(order).drop("score"))
    print(f"recommended {found.height:,} rows for {USERS} users, as in one process")

    # Documents of a query are adjacent in one partition; ``over`` joins lists that two batches share.
    ranker = BatchPredictor(place / "ranker", column="query")
    lists = spark.createDataFrame(documents.to_pandas()).repartition("query").sortWithinPartitions("query")
    schema = "query bigint, score float, rank bigint"
    found = pl.DataFrame(lists.mapInPandas(ranker.over, schema).toPandas())
    alone, order = ranker(documents), ["query", "rank"]
    assert found.sort(order).drop("score").equals(alone.sort(order).drop("score"))
    print(f"ranked {found.height:,} documents of {QUERIES} queries, as in one process")
    spark.stop()


if __name__ == "__main__":
    main()
