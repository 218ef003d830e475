"""Training within a limit of seconds ends like early stopping, with the best checkpoint so far."""

import pytest

from songrank.training.trainer import loop
from tests.training.small_run import trainer
from tests.training.trainer.small_loop import equal


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves; a step takes one second."""

    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

        def step(self):
            self.now += 1.0

    found = Clock()
    monkeypatch.setattr(loop, "time", found)
    return found


def run(dataset, clock, *place, **options):
    made = trainer(dataset, *place, tick=clock.step, **options)
    made.run()
    return made


def test_each_stage_has_a_part_of_the_time_by_its_steps(dataset, clock):
    """Four and six epochs of eight steps: half of the time ends each stage in the middle of an epoch."""
    steps = len(trainer(dataset).stages[0].sampler)
    found = run(dataset, clock, limit=5.25 * steps)
    ends = {line["stage"]: line for line in found.at.history}
    assert ends["warm-up"]["step"] == -(-21 * steps // 10)  # 4/10 of the limit, rounded up to a step
    assert found.at.step == -(-21 * steps // 4)
    assert all("validation ndcg@10" in line for line in ends.values())
    *_, before, partial = (line["loss"] for line in found.at.history if line["stage"] == "warm-up")
    assert partial == pytest.approx(before, rel=0.2)  # a mean over the steps that were done


def test_the_result_is_the_best_checkpoint_so_far(dataset, clock):
    found = run(dataset, clock, limit=30.0)
    name = "validation ndcg@10"
    best = max(line[name] for line in found.at.history if line["stage"] == "fine-tuning" and name in line)
    assert found.evaluate("validation", metrics=["ndcg@10"]).values["ndcg@10"] == best


def test_a_long_limit_changes_nothing(dataset, clock):
    whole, limited = trainer(dataset), run(dataset, clock, limit=1e6)
    whole.run()
    equal(whole.model.state_dict(), limited.model.state_dict())
    assert whole.at.history == limited.at.history


def test_the_time_before_a_stop_counts(dataset, clock, tmp_path):
    first = trainer(dataset, tmp_path, limit=30.0)

    def tick():
        clock.step()
        if first.at.step == 20:
            first.stop()

    first.tick = tick
    first.run()
    clock.now += 1e5  # nobody trained meanwhile
    second = run(dataset, clock, tmp_path, limit=30.0)
    whole = run(dataset, clock, limit=30.0)
    assert second.at.step == whole.at.step == 30
    equal(whole.model.state_dict(), second.model.state_dict())


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan")])
def test_a_limit_is_positive(limit, dataset):
    with pytest.raises(ValueError, match="limit is"):
        trainer(dataset, limit=limit)


def test_without_a_limit_no_time_is_kept(dataset):
    found = trainer(dataset)
    found.run()
    assert found.state_dict()["at"]["seconds"] == 0.0
