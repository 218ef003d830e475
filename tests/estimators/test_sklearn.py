"""scikit-learn's own checks of estimators; those that cannot apply are named here with the reason."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from songrank.estimators import DocumentRanker, LabelRanker, Recommender

SMALL = {"model.hidden": [4], "warm_up.epochs": 0, "validation.every": 0}
QUICK = {"epochs": 1, "device": "cpu", "verbose": 0}


class InLists(DocumentRanker):
    """What scikit-learn's checks know nothing of: five rows that follow one another are the list of a query."""

    def fit(self, X, y, sample_weight=None, *, group=None, qid=None):
        if group is None and qid is None:
            qid = np.arange(X.shape[0] if hasattr(X, "shape") else len(np.asarray(X))) // 5
        return super().fit(X, y, sample_weight, group=group, qid=qid)


NOT_ONE = "one row cannot be divided; the error says so in other words than the check wants"
TYPE_ERROR = "what is no number is a UserError, which is a ValueError, where the check wants a TypeError"
INTERACTIONS = "columns are user, item, label and time, not features"
EXPECTED_TO_FAIL = {
    "InLists": {
        "check_fit2d_1sample": NOT_ONE,
        "check_dtype_object": TYPE_ERROR,
        "check_sample_weight_equivalence_on_dense_data": "a weight multiplies a gain: 0 makes a document irrelevant "
        "and does not remove it from its list",
        "check_sample_weight_equivalence_on_sparse_data": "as on dense data",
    },
    "LabelRanker": {
        "check_fit2d_1sample": NOT_ONE,
        "check_estimators_nan_inf": "labels are whole numbers or texts, and the check gives 0.0 and 1.0",
        "check_estimator_sparse_array": "predict gives k labels a row, where the check wants one",
        "check_estimator_sparse_matrix": "predict gives k labels a row, where the check wants one",
    },
    "Recommender": dict.fromkeys(
        (
            "check_n_features_in_after_fitting",
            "check_n_features_in",
            "check_estimators_dtypes",
            "check_complex_data",
            "check_dtype_object",
            "check_estimators_empty_data_messages",
            "check_estimators_nan_inf",
            "check_estimator_sparse_tag",
            "check_estimator_sparse_array",
            "check_estimator_sparse_matrix",
            "check_fit2d_1sample",
            "check_fit2d_1feature",
            "check_fit2d_predict1d",
        ),
        INTERACTIONS,
    ),
}
ESTIMATORS = [
    InLists(**QUICK, options=SMALL),
    LabelRanker(**QUICK, options=SMALL),
    Recommender(
        **QUICK,
        options={"model.dim": 4, "batch.irrelevant": 2, "warm_up.epochs": 0},
        data_options={"split": "none"},
    ),
]


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda made: EXPECTED_TO_FAIL[type(made).__name__])
def test_scikit_learns_checks(estimator, check):
    if check.func.__name__ == "check_methods_sample_order_invariance" and isinstance(estimator, InLists):
        pytest.skip("scores are float32, and rounding depends on the position of a row; the check allows 1e-9")
    check(estimator)
