"""The summary over all tasks: means and shares, worked out once more from the results of single runs."""

import zlib
from statistics import mean

import pytest

from songrank_paper.set_recipes import CHOSEN_BY
from songrank_paper.summary import Summary
from tests.songrank_paper.small_training import lists, plan, texts, users


def made_up(cell):
    """A result for a cell, which depends on its name alone."""
    value = 0.1 + zlib.crc32(cell.name.encode()) / 2**33
    metrics = dict.fromkeys(CHOSEN_BY.values(), value)
    return {"metrics": {"validation": metrics, "test": metrics}}


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """A plan of one set of films, one of documents and two of labels, and made-up results of all cells."""
    folder = tmp_path_factory.mktemp("summary")
    films, documents = users(folder / "films"), lists(folder / "lists")
    labels = {"bibtex": texts(folder / "one"), "eurlex_4k": texts(folder / "two", seed=1)}
    settings, cells, found = plan(movielens_1m=films, mq2008=documents, **labels), {}, {}
    while new := [cell for cell in Summary().cells(settings, found) if cell.key not in found]:
        cells |= {cell.key: cell for cell in new}
        found |= {cell.key: made_up(cell) for cell in new}
    return settings, cells, found


def rows_of(settings, found):
    table = Summary().show(settings, found).tables["methods"]
    return {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}


def test_figures_are_means_over_reported_runs_and_shares_are_of_the_best(everything):
    settings, cells, found = everything
    rows = rows_of(settings, found)
    films = {}
    for method, title in (("song", "SONG"), ("listmle", "ListMLE"), ("approx-ndcg", "ApproxNDCG")):
        own = [
            found[key]["metrics"]["test"]["ndcg@20"]
            for key, cell in cells.items()
            if cell.name.startswith(f"movielens-1m: {method}") and "test" in cell.options.get("splits", ())
        ]
        assert len(own) == len(settings.seeds)
        films[title] = mean(own)
        column = next(column for column in rows[title] if column.startswith("movielens-1m"))
        assert rows[title][column] == pytest.approx(films[title], abs=1e-5)
    best = max(row[column] for row in rows.values() if row[column] is not None)
    for title, value in films.items():
        assert rows[title]["relative to best, recommendation"] == pytest.approx(value / best, abs=2e-5)


def test_a_share_over_all_sets_is_that_of_methods_that_were_run_on_all(everything):
    settings, _, found = everything
    rows = rows_of(settings, found)
    whole = {title for title, row in rows.items() if row["relative to best, all sets"] is not None}
    assert whole == {"SONG", "K-SONG", "ApproxNDCG", "NeuralNDCG"}
    for title in whole:
        parts = [rows[title][f"relative to best, {task}"] for task in ("recommendation", "search", "labelling")]
        together = (parts[0] + parts[1] + 2 * parts[2]) / 4  # two of the four sets are of labels
        assert rows[title]["relative to best, all sets"] == pytest.approx(together, abs=2e-5)
    assert rows["BCE (baseline)"]["relative to best, search"] is None


def test_a_method_that_diverged_has_no_share(everything):
    settings, cells, found = everything
    lost = next(
        key
        for key, cell in cells.items()
        if cell.name.startswith("bibtex: song") and "test" in cell.options.get("splits", ())
    )
    rows = rows_of(settings, {**found, lost: {"diverged": "step 3"}})
    assert rows["SONG"]["relative to best, labelling"] is None
    assert rows["SONG"]["relative to best, search"] is not None
