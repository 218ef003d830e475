"""Several seeds as one estimator: the mean of the single ones, saved, loaded, and gone on with by nobody."""

import numpy as np
import pytest

from songrank.core.errors import UserError
from songrank.estimators import DocumentRanker, LabelRanker, Recommender
from songrank.estimators.base import NotFittedError

RNG = np.random.default_rng(0)
GROUP = RNG.integers(4, 9, 30)
X = RNG.normal(size=(GROUP.sum(), 4))
Y = np.clip(np.round(X[:, 0] + RNG.normal(size=len(X))), 0, 3)
CLICKS = {
    "user": [u for u in range(20) for _ in range(7)],
    "item": [(3 * u + n) % 11 for u in range(20) for n in range(7)],
}
LABELS = [[int(row[0] > 0), 2 + int(row[1] > 0)] for row in X[:60]]


def documents(**more):
    options = {"model.hidden": [8], "warm_up.epochs": 1}
    made = DocumentRanker(epochs=2, options=options, verbose=0, device="cpu", **more)
    return made.fit(
        X, Y, group=GROUP, eval_set=[(X[: GROUP[0] + GROUP[1]], Y[: GROUP[0] + GROUP[1]])], eval_group=[GROUP[:2]]
    )


def labels(**more):
    options = {"model.hidden": [8], "warm_up.epochs": 1}
    return LabelRanker(epochs=2, options=options, verbose=0, device="cpu", **more).fit(X[:60], LABELS)


def items(**more):
    model = {"name": "sequence", "dim": 8, "blocks": 1, "heads": 1, "length": 5}
    options = {"warm_up.epochs": 1}
    return Recommender(model=model, epochs=2, options=options, verbose=0, device="cpu", **more).fit(CLICKS)


def scores(made):
    if isinstance(made, DocumentRanker):
        return made.predict(X)
    if isinstance(made, LabelRanker):
        return made.decision_function(X[:60])
    found = made.recommend(k=11, exclude_seen=False)
    return np.array([score for *_, score in sorted(zip(found["user"], found["item"], found["score"], strict=True))])


@pytest.mark.parametrize("fit", [documents, labels, items])
def test_it_is_the_mean_of_the_single_ones(fit, tmp_path):
    made = fit(members=3, random_state=4)
    single = [scores(fit(random_state=seed)) for seed in (4, 5, 6)]
    assert np.abs(single[0] - single[1]).max() > 1e-3
    np.testing.assert_allclose(scores(made), np.mean(single, 0), atol=1e-5)
    assert made.recipe_.members == 3
    made.save(tmp_path / "saved")
    np.testing.assert_array_equal(scores(type(made).load(tmp_path / "saved", device="cpu")), scores(made))


def test_figures_are_those_of_the_mean():
    made = documents(members=2)
    rows = slice(0, GROUP[0] + GROUP[1])
    wanted = made.evaluate(X[rows], Y[rows], GROUP[:2], list(made.best_score_["valid_0"])).values
    assert made.best_score_["valid_0"] == pytest.approx(wanted)


def test_runs_are_kept_where_a_folder_is_named(tmp_path):
    labels(members=2, folder=str(tmp_path / "kept"))
    assert {"data", "run", "run-1", "ensemble"} <= {path.name for path in (tmp_path / "kept").iterdir()}


def test_what_cannot_be_is_one_line(tmp_path):
    made = items(members=2)
    with pytest.raises(UserError, match="members is 2; expected 1 for partial_fit, or call fit"):
        made.partial_fit(CLICKS)
    for wrong in (0, -1, 1.5, "3", None, True):
        with pytest.raises(UserError, match=r"members is .*; expected a whole number of at least 1"):
            items(members=wrong)


@pytest.mark.parametrize("fitted", [False, True])
def test_a_fit_that_is_broken_off_at_its_second_member_leaves_what_was_there(fitted):
    lines = []

    def stop(line):
        lines.append(line)
        if len(lines) == 4:  # three epochs are the first member's
            raise KeyboardInterrupt

    made = items(random_state=1) if fitted else Recommender(**items().get_params())
    before = scores(made) if fitted else None
    made.set_params(members=2, callbacks=[stop])
    with pytest.raises(KeyboardInterrupt):
        made.fit({"user": [f"v{user}" for user in CLICKS["user"]], "item": CLICKS["item"]})
    if not fitted:
        with pytest.raises(NotFittedError):
            made.recommend(k=1)
        return
    assert (scores(made) == before).all()
    made.set_params(members=1, callbacks=None).partial_fit({"user": [0, 0], "item": [3, 4]}, epochs=1)
    assert list(made.folder_.query_ids) == list(range(20))
