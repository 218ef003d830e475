"""Baselines are fitted once per data set: results are kept, and a damaged or outdated file is replaced."""

import pytest
import torch

from songrank.analysis import kept_baselines
from songrank.analysis.kept_baselines import measure_once
from songrank.baselines import measure
from songrank.core.errors import DataError
from songrank.data import open_dataset, prepare

SIZES = {"queries": 60, "items": 40, "pairs": 700}
POLICIES = {"ties": "pessimistic", "empty": "skip", "gain": "exp2"}


@pytest.fixture
def dataset(tmp_path):
    return prepare("synthetic", None, tmp_path / "set", **SIZES)


@pytest.fixture
def fits(monkeypatch):
    """The names of the baselines that were fitted, and the options they were given."""
    found = []

    def counted(name, *arguments, options=None, **more):
        found.append((name, options))
        return measure(name, *arguments, options=options, **more)

    monkeypatch.setattr(kept_baselines, "measure", counted)
    return found


def ask(dataset, name="ease", split="test", metrics=("ndcg@10",), select="ndcg@10", **more):
    return measure_once(name, dataset, split, select=select, metrics=metrics, **{**POLICIES, **more})


def test_the_second_result_is_the_first_one(dataset, fits):
    first, again = ask(dataset), ask(open_dataset(dataset.path))
    assert fits == [("ease", None)]
    assert (again.options, again.inputs, again.validation) == (first.options, first.inputs, first.validation)
    assert again.evaluation.values == first.evaluation.values
    assert again.evaluation.values["ndcg@10"] == measure("ease", dataset).evaluation.values["ndcg@10"]
    one, other = again.evaluation.per_query["ndcg@10"], first.evaluation.per_query["ndcg@10"]
    assert torch.equal(one.nan_to_num(-1), other.nan_to_num(-1))
    assert str(again.evaluation) == str(first.evaluation)


def test_more_metrics_keep_the_chosen_options(dataset, fits):
    first = ask(dataset)
    more = ask(dataset, metrics=["mrr", "ndcg@10"])
    assert fits[1:] == [("ease", first.options)]
    assert more.validation == first.validation
    assert list(more.evaluation.values) == ["mrr", "ndcg@10"]
    assert list(ask(dataset, metrics=["mrr"]).evaluation.values) == ["mrr"]
    assert len(fits) == 2


def test_other_settings_are_other_results(dataset, fits):
    ask(dataset)
    ask(dataset, gain="linear")
    ask(dataset, split="validation")
    ask(dataset, select="recall@5")
    ask(dataset, name="popularity")
    assert len(fits) == 5


def test_a_data_set_that_is_prepared_again_has_no_results(dataset, fits):
    ask(dataset)
    prepare("synthetic", None, dataset.path, **SIZES, seed=1, overwrite=True)
    assert not list(dataset.path.glob("baseline-*"))
    ask(open_dataset(dataset.path))
    assert len(fits) == 2


def test_a_damaged_file_is_replaced(dataset, fits):
    first = ask(dataset)
    (file,) = dataset.path.glob("baseline-ease-test-*.safetensors")
    file.write_bytes(file.read_bytes()[:-8])
    assert ask(dataset).evaluation.values == first.evaluation.values
    ask(dataset)
    assert len(fits) == 2


def test_without_a_place_to_write_nothing_is_kept(dataset, fits, monkeypatch):
    def refused(file, content):
        raise DataError("cannot be written", "choose another directory", file=str(file))

    monkeypatch.setattr(kept_baselines, "write_whole", refused)
    assert ask(dataset).evaluation.values == ask(dataset).evaluation.values
    assert len(fits) == 2
    assert not list(dataset.path.glob("baseline-*"))
