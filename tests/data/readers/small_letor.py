"""Helpers that tests of several modules share."""

from tests.data.preparation.prepared import prepare_in


def rows(*queries, feature=1):
    """Two documents of each query; the feature is the query's number, so that files can be told apart."""
    return "".join(f"1 qid:{query} {feature}:{query}\n0 qid:{query} {feature}:0.5\n" for query in queries)


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def queries_of(dataset):
    return {name: list(dataset.split_query_ids(name)) for name in dataset}


def prepared(folder, files, **options):
    """Of files in a folder of their own."""
    source = folder / "source"
    source.mkdir()
    return prepare_in(folder, "letor", write(source, files), **options)


GIVEN = {"train": [1, 2], "validation": [3], "test": [4]}

FOLDS = {
    f"{folder}/{name}.txt": rows(*(query + 10 * fold for query in queries))
    for fold, folder in ((1, "Fold1"), (2, "Fold2"))
    for name, queries in (("train", (1, 2)), ("vali", (3,)), ("test", (4,)))
}
