"""Metrics of evaluation sets as LightGBM takes them, and the importance of features."""

import numpy as np
import pytest

from songrank.core.errors import UserError
from tests.estimators.small_documents import GROUP, QID, SMALL, X, Y, documents, ranker

HELD_OUT = documents(seed=1)


def fitted(**more):
    (x, y, group) = HELD_OUT
    return ranker().fit(X, Y, group=GROUP, eval_set=[(x, y)], eval_group=[group], **more)


def test_metrics_and_cutoffs_are_those_of_the_evaluation_sets_and_of_early_stopping():
    model = fitted(eval_metric=["map", "ndcg@7"], eval_at=(3, 5))
    assert list(model.evaluation_["valid_0"].values) == ["map@3", "map@5", "ndcg@7"]
    assert list(model.evals_result_["valid_0"]) == ["map@3"]
    assert model.recipe_.validation.metric == "map@3"
    x, y, group = HELD_OUT
    assert model.score(x, y, group=group) == pytest.approx(model.evaluation_["valid_0"].values["map@3"])


def test_cutoffs_alone_are_of_ndcg_and_options_take_precedence():
    assert list(fitted(eval_at=4).evaluation_["valid_0"].values) == ["ndcg@4"]
    model = ranker(options={**SMALL, "validation.metric": "mrr"}).fit(X, Y, group=GROUP, eval_at=[4])
    assert model.recipe_.validation.metric == "mrr"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"eval_at": (0,)}, "eval_at is .0,.; expected whole numbers of at least 1"),
        ({"eval_at": ()}, "eval_at is"),
        ({"eval_at": "5"}, "eval_at is '5'"),
        ({"eval_metric": "auc"}, "eval_metric is 'auc'"),
    ],
)
def test_invalid_metrics_are_errors_before_training(more, message):
    with pytest.raises(UserError, match=message):
        fitted(**more)


class TestPermutationImportance:
    def test_the_feature_that_labels_follow_is_the_most_important(self):
        model = ranker(epochs=30).fit(X, Y, group=GROUP)
        found = model.permutation_importance(*HELD_OUT, n_repeats=3)
        assert found["importances"].shape == (X.shape[1], 3)
        assert int(found["importances_mean"].argmax()) == 0
        np.testing.assert_allclose(found["importances"].mean(1), found["importances_mean"])
        np.testing.assert_allclose(found["importances"].std(1), found["importances_std"])

    def test_it_is_the_decrease_of_the_metric_with_a_shuffled_column(self):
        model, (x, y, group) = ranker().fit(X, Y, group=GROUP), HELD_OUT
        found = model.permutation_importance(x, y, group, "ndcg@3", n_repeats=1, random_state=5)
        shuffled, generator = x.copy(), np.random.default_rng(5)
        shuffled[:, 0] = generator.permutation(x[:, 0])
        before, after = (model.evaluate(one, y, group, "ndcg@3").values["ndcg@3"] for one in (x, shuffled))
        assert found["importances"][0, 0] == pytest.approx(before - after)

    def test_lists_by_qid_and_the_input_is_unchanged(self):
        model, before = ranker().fit(X, Y, group=GROUP), X.copy()
        one = model.permutation_importance(X, Y, GROUP, n_repeats=2)
        other = model.permutation_importance(X, Y, qid=QID, n_repeats=2)
        np.testing.assert_array_equal(one["importances"], other["importances"])
        np.testing.assert_array_equal(X, before)
