"""The Recommender over time: saved, loaded, damaged, cut short, and fitted on more interactions."""

import hashlib
import json
import tempfile

import pandas as pd
import pytest
import torch

from songrank.core.errors import UserError
from songrank.estimators import Recommender
from songrank.io.json_files import read_json, write_json
from songrank.io.locks import alone
from tests.estimators.evaluations import same_evaluations
from tests.estimators.small_recommender import NAMES, SMALL, clicks, small


@pytest.fixture(scope="module")
def table():
    return clicks()


@pytest.fixture(scope="module")
def fitted(table):
    return small(**NAMES).fit(table)


def test_saved_and_loaded_it_answers_alike(tmp_path, fitted):
    fitted.save(tmp_path / "model")
    again = Recommender.load(tmp_path / "model", device="cpu")
    pd.testing.assert_frame_equal(again.recommend(k=5), fitted.recommend(k=5))
    assert again.get_params()["options"] == SMALL
    assert again.best_score_ == fitted.best_score_
    assert set(fitted.evaluation_) == {"validation", "test"}
    same_evaluations(again.evaluation_, fitted.evaluation_)
    again.save(tmp_path / "model")  # over itself
    pd.testing.assert_frame_equal(Recommender.load(tmp_path / "model").recommend(k=5), fitted.recommend(k=5))


def test_one_that_was_saved_in_an_older_format_asks_for_a_new_fit_not_for_this_version(tmp_path, fitted):
    fitted.save(tmp_path)
    _change(tmp_path, version=1)
    with pytest.raises(UserError, match=r"format version 1; songrank \S+ supports 2; fit and save the estimator again"):
        Recommender.load(tmp_path)
    _change(tmp_path, version=1, songrank="0.0.9")
    with pytest.raises(UserError, match=r"open it with songrank 0\.0\.9, or fit and save the estimator again"):
        Recommender.load(tmp_path)


def _change(folder, **entries):
    file = folder / "estimator.json"
    write_json(file, {**read_json(file), **entries})


def _replace(folder, name, content):
    """Replace a file and its checksum."""
    (folder / name).write_bytes(content)
    told = json.loads((folder / "estimator.json").read_text())
    _change(folder, files={**told["files"], name: hashlib.sha256(content).hexdigest()})


BREAKS = {
    "another class": (lambda f: _change(f, **{"class": "LabelRanker"}), "contains 'LabelRanker', not a Recommender"),
    "a newer version": (lambda f: _change(f, version=9), "format version 9"),
    "a folder to write to": (lambda f: _change(f, parameters={"folder": "x"}), "is damaged or was edited"),
    "no files": (lambda f: _change(f, files={}), "is damaged or was edited"),
    "files of another kind": (lambda f: _change(f, files=[]), "is damaged or was edited"),
    "a way out": (lambda f: _change(f, files={"../../secret": "0"}), "is damaged or was edited"),
    "other parameters": (lambda f: _change(f, parameters={"los": "song"}), "is damaged or was edited"),
    "a cut table": (lambda f: (f / "interactions.parquet").write_bytes(b"PAR1"), "checksum mismatch"),
    "another table": (lambda f: _replace(f, "interactions.parquet", b"PAR1 PAR1"), "is damaged or was edited"),
    "another past": (lambda f: _replace(f, "past.safetensors", b"\xff" * 20), "is damaged or was edited"),
    "a missing table": (lambda f: (f / "past.safetensors").unlink(), "is missing"),
    "no JSON": (lambda f: (f / "estimator.json").write_text("{"), "is not valid JSON"),
    "nothing": (lambda f: (f / "estimator.json").unlink(), "is missing"),
    "other weights": (
        lambda f: (f / "model.safetensors").write_bytes(b"\x80\x04."),
        "checksum mismatch with model.json",
    ),
}


@pytest.mark.parametrize("how", BREAKS)
def test_a_damaged_folder_is_refused_in_one_line(how, tmp_path, fitted):
    fitted.save(tmp_path)
    harm, message = BREAKS[how]
    harm(tmp_path)
    with pytest.raises(UserError, match=message) as caught:
        Recommender.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_folder_of_something_else_is_not_written_over(tmp_path, fitted):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="already exists and has no estimator.json"):
        fitted.save(tmp_path)


def test_more_interactions_keep_what_is_known(tmp_path, table):
    model = small(**NAMES).fit(table)
    before = dict(zip(model._past.query_ids, range(30), strict=True))
    model.save(tmp_path)
    again = Recommender.load(tmp_path)
    new = pd.DataFrame(
        {"who": ["a first one"] * 4 + ["user 1"], "what": ["item 1", "item 2", "0 new", "item 3", "0 new"],
         "stars": [5, 4, 3, 2, 5], "when": [100, 101, 102, 103, 104]}
    )  # fmt: skip
    again.set_params(verbose=0).partial_fit(new, epochs=1)
    assert set(again.recommend(["a first one"], k=3)["source"]) == {"model"}
    assert "0 new" not in again.recommend(["user 1"], k=1000)["what"].tolist()
    assert len(again._past.query_ids) == len(before) + 1
    assert again.recipe_.warm_up.epochs == 0
    with pytest.raises(UserError, match="has no label column 'stars'"):
        again.partial_fit(new.drop(columns="stars"))


def test_going_on_begins_where_the_last_fit_ended(table):
    """With hardly a step, weights of known users and items and the memory of known pairs are what they were."""
    options = {**SMALL, "fine_tuning.ema_decay": 0.9}
    model = small(**NAMES, options=options).fit(table)
    assert model.recipe_.fine_tuning.ema_decay == 0.9
    before = model._past
    new = pd.DataFrame({"who": ["a first one"] * 3, "what": ["item 1", "0 new", "item 2"], "stars": 5, "when": 200})
    model.set_params(learning_rate=1e-12).partial_fit(new, epochs=1)
    assert model.recipe_.fine_tuning.ema_decay is None  # over few epochs a mean would lag behind
    after = model._past
    users, items = after.query_ids.find(list(before.query_ids)), after.item_ids.find(list(before.item_ids))
    for name, rows in (("query_product.weight", users), ("item_hidden.weight", items)):
        torch.testing.assert_close(after.weights[name][rows], before.weights[name], rtol=0.0, atol=1e-10)
    key = users[before.pairs // len(items)] * len(after.item_ids) + items[before.pairs % len(items)]
    assert torch.isin(key, after.pairs).all()
    known = before.memory["u"].isfinite()
    then, now = before.memory["u"][known], after.memory["u"][torch.searchsorted(after.pairs, key[known])]
    assert torch.corrcoef(torch.stack([then, now]))[0, 1] > 0.5  # moved on by a visit, not begun anew
    with pytest.raises(UserError, match="different layers or sizes"):
        model.set_params(options={**SMALL, "model.dim": 8}).partial_fit(new)
    with pytest.raises(UserError, match="different layers or sizes"):
        model.set_params(options={"model.dim": 4}, model="matrix-factorisation").partial_fit(new)


def test_a_save_that_is_cut_short_leaves_the_one_before(tmp_path, table, fitted, monkeypatch):
    fitted.save(tmp_path / "model")
    monkeypatch.setattr("songrank.estimators.saving.write_whole", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        small(**NAMES, random_state=7).fit(table).save(tmp_path / "model")
    monkeypatch.undo()
    pd.testing.assert_frame_equal(Recommender.load(tmp_path / "model").recommend(k=3), fitted.recommend(k=3))
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_without_its_data_a_saved_one_cannot_go_on(tmp_path, table, fitted):
    fitted.save(tmp_path)
    fitted.save(tmp_path, data=False)
    assert not (tmp_path / "past.safetensors").exists()
    again = Recommender.load(tmp_path)
    assert len(again.recommend(k=2)) == 60
    assert not any(b"user 1" in file.read_bytes() for file in tmp_path.glob("*.parquet"))
    with pytest.raises(UserError, match="save with data=True"):
        again.partial_fit(table)


def test_nothing_is_left_behind_and_a_folder_is_one_fits_own(tmp_path, table, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = small(**NAMES).fit(table)
    assert not list(tmp_path.iterdir())
    assert len(model.recommend(k=1)) == 30

    kept = tmp_path / "kept"

    def meddle(line):
        with pytest.raises(UserError, match="is being fitted by another process"), alone(kept, "fitted"):
            pass

    small(**NAMES, folder=str(kept), callbacks=[meddle]).fit(table)
    assert (kept / "run" / "model.json").exists()
