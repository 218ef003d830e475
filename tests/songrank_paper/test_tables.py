"""The tables of methods, from files in the formats of the paper's sets to means, ranks and paired differences."""

import re
from statistics import mean, stdev

import pytest
import torch
from safetensors.torch import load_file

from songrank.data import prepare
from songrank_paper.experiment import Plan
from songrank_paper.methods import METHODS
from songrank_paper.protocol import SetProtocol
from songrank_paper.set_recipes import METRICS
from songrank_paper.tables import TableLtr, TableRs, TableXml
from tests.songrank_paper.raw_files import movielens_20m, mslr
from tests.songrank_paper.small_training import TINY, TINY_LABELS, do, plan, texts

SHORT = ("warm_up.epochs=1", "fine_tuning.epochs=2")


@pytest.fixture(scope="module")
def labelling(tmp_path_factory):
    """The table of labelling on two sets: plan, experiment, results, what is shown, and where the cells are."""
    folder = tmp_path_factory.mktemp("labelling")
    settings = plan(eurlex_4k=texts(folder / "one"), bibtex=texts(folder / "two", seed=1))
    table = TableXml((*TINY_LABELS, *SHORT))
    return settings, table, *do(table, settings, folder), folder / "cells"


def numbers(text):
    return [float(number) for number in re.findall(r"[+-]?\d+\.\d+", text)]


def check_table(table, runs, metrics, titles):
    """Means, deviations, ranks and differences are those of the single runs."""
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert list(rows) == titles
    by_method = {title: [row for row in runs if row["method"] == title] for title in titles}
    for metric in metrics:
        song = mean(run[metric] for run in by_method["SONG"])
        for title, own in by_method.items():
            values = [run[metric] for run in own]
            assert numbers(rows[title][metric]) == pytest.approx([mean(values), stdev(values)], abs=6e-5)
            if title == "SONG":
                assert rows[title][f"Δ vs SONG {metric}"] is None
            else:
                difference, low, high = numbers(rows[title][f"Δ vs SONG {metric}"])
                assert difference == pytest.approx(mean(values) - song, abs=7e-5)
                assert low <= difference <= high
    rank = next(column for column in table.columns if column.startswith("rank "))
    order = sorted(titles, key=lambda title: rows[title][rank])
    shown = [numbers(rows[title][rank.removeprefix("rank ")])[0] for title in order]
    assert shown == sorted(shown, reverse=True)
    return rows


def as_dicts(table):
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_a_file_like_movielens_20m_becomes_the_table_of_recommendation(tmp_path):
    prepare("movielens-20m", movielens_20m(tmp_path / "raw"), tmp_path / "data")
    settings = plan(movielens_20m=tmp_path / "data")
    found, findings = do(TableRs((*TINY, *SHORT)), settings, tmp_path)
    runs = as_dicts(findings.tables["runs"])
    assert len(runs) == 8 * 2
    titles = [method.title for method in METHODS["recommendation"]]
    rows = check_table(findings.tables["movielens-20m"], runs, METRICS["recommendation"], titles)
    assert rows["K-SONG"]["paper ndcg@50"] == "0.1340 ± 0.0001"
    chosen = [row for row in as_dicts(findings.tables["settings"]) if row[""] == "chosen"]
    assert [row["method"] for row in chosen] == titles
    assert sum("warm_up" in result for result in found.values()) == 3 + 8 * (2 + 2)


def test_a_folder_like_mslr_becomes_the_table_of_learning_to_rank(tmp_path):
    prepare("mslr-web30k", mslr(tmp_path / "raw", features=136), tmp_path / "data")
    changes = ("model.dim=8", "model.feed_forward=8", *TINY[1:], *SHORT)
    _, findings = do(TableLtr(changes), plan(mslr_web30k=tmp_path / "data"), tmp_path)
    titles = [method.title for method in METHODS["search"]]
    table = findings.tables["mslr-web30k"]
    rows = check_table(table, as_dicts(findings.tables["runs"]), METRICS["search"], titles)
    assert rows["SONG"]["paper ndcg@1"] == "0.5265 ± 0.0005"
    assert not any("synthetic" in remark for remark in findings.remarks)


def test_several_sets_are_averaged(labelling):
    _, _, _, findings, _ = labelling
    runs = as_dicts(findings.tables["runs"])
    titles = [method.title for method in METHODS["labelling"]]
    for name in ("eurlex-4k", "bibtex"):
        rows = check_table(findings.tables[name], [run for run in runs if run["set"] == name], ("ndcg@5",), titles)
    assert "paper ndcg@5" not in rows["SONG"]  # the paper has no Bibtex
    joined = []
    for title in titles:
        for seed in (0, 1):
            own = [run["ndcg@5"] for run in runs if run["method"] == title and run["seed"] == seed]
            joined.append({"method": title, "seed": seed, "ndcg@5": mean(own)})
    check_table(findings.tables["all-sets"], joined, ("ndcg@5",), titles)
    assert any("eurlex-4k: published values are of the real set" in remark for remark in findings.remarks)


def test_differences_are_paired_by_query_and_seed(labelling):
    settings, table, found, _, cells = labelling
    cell = next(cell for cell in table.cells(settings, found) if cell.name == "bibtex: comparison on test")
    keys = cell.options["runs"]
    values = {
        name: torch.stack(
            [load_file(cells / key / "run/evaluation/test.safetensors")["ndcg@5"] for key in keys[name]]
        ).double()
        for name in ("bce", "song")
    }
    difference = values["bce"] - values["song"]
    shown = found[cell.key]["differences"]["bce"]["ndcg@5"]
    assert shown["mean"] == pytest.approx(float(difference.nanmean()), abs=1e-9)
    by_query = difference.mean(0)
    by_query = by_query[~by_query.isnan()]
    assert (shown["wins"], shown["losses"]) == (int((by_query > 1e-12).sum()), int((by_query < -1e-12).sum()))
    assert shown["paired_seeds"]
    assert shown["standard_error"] >= 0.999 * float(by_query.std() / by_query.numel() ** 0.5)


def test_a_method_that_diverged_is_shown_as_such_and_the_others_are_compared(labelling):
    settings, table, found, _, _ = labelling
    settings = plan(bibtex=settings.data["bibtex"])
    cells = {cell.key: cell for cell in table.cells(settings, found)}
    lost = next(
        key
        for key, cell in cells.items()
        if cell.options.get("splits") == ["validation", "test"] and cell.options["recipe"]["loss"]["name"] == "bce"
    )
    whole = next(found[key] for key, cell in cells.items() if "runs" in cell.options)
    found = {**found, lost: {"diverged": "step 3: BCE is NaN or infinite"}}
    compared = [cell for cell in table.cells(settings, found) if cell.key not in found]
    assert [sorted(cell.options["runs"]) for cell in compared] == [["approx-ndcg", "k-song", "neural-ndcg", "song"]]
    parts = ("summaries", "differences")
    figures = {part: {name: one for name, one in whole[part].items() if name != "bce"} for part in parts}
    findings = table.show(settings, {**found, compared[0].key: figures})
    rows = {row[0]: row for row in findings.tables["bibtex"].rows}
    assert rows["BCE (baseline)"][1] == "diverged"
    assert numbers(rows["SONG"][1])
    assert len({len(row) for row in rows.values()}) == 1
    assert "bibtex: BCE (baseline) diverged with 1 of 2 seeds." in findings.remarks


def test_a_learning_rate_at_the_edge_of_what_was_tried_is_said(labelling):
    data = {"bibtex": labelling[0].data["bibtex"]}
    table, full = TableXml(TINY_LABELS), Plan(data=data, seeds=(0, 1))
    each = SetProtocol(full, "bibtex", TINY_LABELS)
    best = {"bce": 0.4, "approx-ndcg": 1.0, "neural-ndcg": 2.5, "song": 0.4, "k-song": 1.0}
    found = {}
    for method in each.methods:
        for setting, training in each.tuning(method).items():
            value = 0.5 if setting.rate == best[method.name] else 0.1
            found[training.cell.key] = {"metrics": {"validation": {"ndcg@5": value}}}
        found |= {training.cell.key: {"diverged": "step 1"} for training in each.reported(method, found)}
    remarks = table.show(full, found).remarks
    said = "the lowest for BCE (baseline), SONG and the highest for NeuralNDCG was chosen; others may be better."
    assert f"bibtex: of the learning rates tried, {said}" in remarks
