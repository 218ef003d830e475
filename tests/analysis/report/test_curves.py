"""Which epoch was chosen, and what the curves of several seeds are."""

import json
import statistics

import pytest

from songrank.analysis.report.curves import chosen_epoch, make_panels, read_history
from songrank.core.errors import DataError
from songrank.io.json_files import write_json
from songrank.training.trainer.loop import validation_name

WATCHED = "validation ndcg@10"
VALIDATION = {"validation": {"metric": "ndcg@10", "candidates": "all"}}


def history(*values, warm_up=0, name=WATCHED):
    lines = []
    for at, value in enumerate(values):
        line = {"stage": "warm-up" if at < warm_up else "fine-tuning", "epoch": at + 1, "objective": at / 10}
        lines.append(line if value is None else {**line, name: value})
    return lines


def test_the_chosen_epoch_is_the_one_whose_weights_training_kept(finished):
    for run in finished.values():
        lines = read_history(run.directory.path)
        watched = validation_name(run.recipe.validation.metric, run.recipe.validation.candidates)
        at = chosen_epoch(lines, watched)
        assert lines[at - 1]["stage"] == "fine-tuning"
        assert lines[at - 1][watched] == run.trainer.at.best


def test_a_better_warm_up_is_not_chosen_and_the_first_of_equals_is():
    assert chosen_epoch(history(0.9, 0.8, None, 0.3, 0.5, 0.5, warm_up=2), WATCHED) == 5
    assert chosen_epoch(history(None, None, None), WATCHED) == 3


def test_a_run_that_keeps_the_best_of_all_stages():
    assert chosen_epoch(history(0.8, 0.9, None, 0.3, 0.5, warm_up=2), WATCHED, "all") == 2
    assert chosen_epoch(history(0.8, 0.9, None, 0.3, 0.9, warm_up=2), WATCHED, "all") == 2
    config = {"validation": {**VALIDATION["validation"], "keep": "all"}, "loss": {"name": "song"}}
    (panel, *_) = make_panels({"SONG": [(config, history(0.9, 0.4, warm_up=1))]})
    assert panel.curves[0].chosen == (1,)


def test_curves_are_means_over_the_seeds_that_got_so_far():
    config = {**VALIDATION, "loss": {"name": "song"}, "warm_up": {"loss": {"name": "listwise-ce"}}}
    long, short = history(0.1, 0.2, 0.6, warm_up=1), history(0.3, 0.5, warm_up=1)
    validation, warm_up, fine_tuning = make_panels({"song": [(config, long), (config, short)]})
    (curve,) = validation.curves
    assert [(point.epoch, point.stage, point.seeds) for point in curve.points] == [
        (1, "warm-up", 2),
        (2, "fine-tuning", 2),
        (3, "fine-tuning", 1),
    ]
    assert [point.mean for point in curve.points] == pytest.approx([0.2, 0.35, 0.6])
    assert curve.points[1].sd == pytest.approx(statistics.stdev([0.2, 0.5]))
    assert (curve.chosen, validation.warm_up) == ((2, 3), 1)
    assert warm_up.title == "Objective of listwise-ce in warm-up"
    assert [point.epoch for point in fine_tuning.curves[0].points] == [2, 3]


def test_objectives_of_different_losses_are_not_drawn_together():
    shared = {**VALIDATION, "warm_up": {"loss": {"name": "listwise-ce"}}}
    runs = {loss: [({**shared, "loss": {"name": loss}}, history(0.1, 0.2, warm_up=1))] for loss in ("song", "softmax")}
    titles = {panel.title: len(panel.curves) for panel in make_panels(runs)}
    assert titles == {
        "Validation ndcg@10": 2,
        "Objective of listwise-ce in warm-up": 2,
        "Objective of song in fine-tuning": 1,
        "Objective of softmax in fine-tuning": 1,
    }


def test_sampled_validation_says_so():
    sampled = history(0.1, name="validation ndcg@5 among 50 sampled")
    config = {"loss": {"name": "song"}, "validation": {"metric": "ndcg@5", "candidates": 50}}
    (panel, _) = make_panels({"song": [(config, sampled)]})
    assert panel.title == "Validation ndcg@5 among 50 sampled"
    assert "higher than over all items" in panel.about


def test_a_line_that_was_not_finished_is_left_out_and_no_line_is_an_error(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(json.dumps(history(0.5)[0]) + '\n{"stage": "fine-tu')
    assert read_history(tmp_path) == history(0.5)
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(DataError, match="has no epochs"):
        read_history(tmp_path)


def test_seconds_of_epochs_and_validations_have_panels(finished):
    run = finished["recommendation"]
    lines = read_history(run.directory.path)
    notes = run.directory.notes()
    assert [line["epoch_seconds"] for line in lines] == notes["epoch_seconds"]
    validated = [line.get("evaluation_seconds", 0.0) for line in lines]
    assert validated == notes["evaluation_seconds"]
    assert [seconds > 0 for seconds in validated] == [any(name.startswith("validation ") for name in x) for x in lines]
    panels = {panel.title: panel for panel in make_panels({"song": [(run.recipe.model_dump(mode="json"), lines)]})}
    (curve,) = panels["Seconds per epoch"].curves
    assert [point.mean for point in curve.points] == notes["epoch_seconds"]
    assert len(panels["Seconds per validation"].curves[0].points) == sum(seconds > 0 for seconds in validated)


def test_seconds_of_another_number_of_epochs_are_left_out(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in history(0.5, 0.6)))
    write_json(tmp_path / "run.json", {"epoch_seconds": [1.0]})
    assert read_history(tmp_path) == history(0.5, 0.6)
