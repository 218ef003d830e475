"""What all losses for other trainers share: slates of whole lists, evaluation, memory, several processes."""

from pathlib import Path

import pytest
import torch

from songrank import KSONG, SONG, ListNet, ListwiseCE, SlateSampler
from songrank.core.errors import DataError
from songrank.integrations.trainer_loss import TrainerLoss, check_lists
from songrank.losses import FasterKSONG, FasterSONG
from tests.oracles.formulas import ndcg
from tests.processes import run_processes

from .small_lists import DOCUMENTS, LABELS, TENSORS, relevance

MASK = torch.nn.utils.rnn.pad_sequence([torch.ones(len(row), dtype=torch.bool) for row in LABELS], batch_first=True)
GRADES = torch.nn.utils.rnn.pad_sequence(TENSORS, batch_first=True)
SCORES = torch.tensor([[0.3, 0.1, 0.9, 0.4, 0.2], [1.0, 2.0, 0.5, 9, 9], [0.1, 0.2, 0.3, 0.4, 9], [0.5, 0.6, 9, 9, 9]])


@pytest.mark.parametrize(("loss", "k"), [(SONG(0, gamma=1.0), None), (ListNet(), None), (KSONG(10, 4, k=2), 2)])
def test_the_value_of_an_evaluation_is_minus_ndcg_of_whole_lists(loss, k):
    found = TrainerLoss(loss, relevance()).evaluated(SCORES, GRADES, MASK)
    each = [ndcg(row[: len(y)].tolist(), y, k) for row, y in zip(SCORES, LABELS, strict=True)]
    assert float(found) == pytest.approx(-sum(each) / 4, abs=1e-6)
    nothing = TrainerLoss(loss, relevance()).evaluated(SCORES, torch.zeros_like(GRADES), MASK)
    assert float(nothing) == 0.0


def test_whole_lists_have_the_memory_rows_of_a_sampler():
    own = TrainerLoss(KSONG(relevance().num_pairs, 4, k=2), relevance())
    number = torch.tensor([2, 0, 3])
    slate = own.whole_lists(GRADES[number], MASK[number], number)
    drawn = SlateSampler(relevance(), relevant="all", irrelevant="all", k=2).draw(number)
    slate.check()
    for row in range(3):
        rows = slate.pair[row][slate.pair[row] >= 0]
        assert rows.tolist() == sorted(drawn.pair[row][drawn.pair[row] >= 0].tolist())
    for name in ("query", "list_size", "num_relevant", "ideal_dcg"):
        assert torch.equal(getattr(slate, name), getattr(drawn, name)), name


def test_lists_without_a_relevant_item_do_not_count():
    own, loss = TrainerLoss(ListwiseCE(0, gamma=1.0), None), ListwiseCE(0, gamma=1.0)
    grades = GRADES.clone()
    grades[1] = 0.0
    rest = torch.tensor([0, 2, 3])
    slate = TrainerLoss(loss, None).whole_lists(grades[rest], MASK[rest], None)
    found = own.value(SCORES, own.whole_lists(grades, MASK, None))
    torch.testing.assert_close(found, loss(SCORES[rest], slate))


def test_a_step_counts_and_a_state_continues():
    own, other = (TrainerLoss(SONG(relevance().num_pairs), relevance()) for _ in range(2))
    for _ in range(3):
        own.value(SCORES, own.whole_lists(GRADES, MASK, torch.arange(4)))
    other.load_memory_state(own.memory_state())
    assert other.steps == 3
    assert other.loss.u.read().isfinite().all()
    assert torch.equal(other.loss.u.read(), own.loss.u.read())


@pytest.mark.parametrize("kind", [FasterSONG, FasterKSONG])
def test_a_loss_that_needs_two_points_is_rejected(kind):
    options = {"k": 2} if kind is FasterKSONG else {}
    loss = kind(6, 4, queries_per_batch=2, active_queries=4, **options)
    with pytest.raises(ValueError, match=rf"loss is '{kind.__name__}'; expected {kind.__name__[6:]}: "):
        TrainerLoss(loss, relevance())


def test_a_module_that_is_no_loss_is_rejected():
    with pytest.raises(TypeError, match="loss is 'Linear'; expected a loss of songrank"):
        TrainerLoss(torch.nn.Linear(1, 1), None)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (None, "SONG keeps memory, but the rows of the training set have no list number; add a column .* 0 to 3"),
        (torch.tensor([0, 1, 2, 4]), "the number of a list is 4; expected 0 to 3: the relevance has 4 lists"),
        (torch.tensor([0, -1, 2, 3]), "the number of a list is -1; expected 0 to 3"),
        (torch.tensor([1, 0, 2, 3]), "a list of the batch is not the list of this number in the relevance; build the"),
    ],
)
def test_a_wrong_list_number_is_named(number, message):
    own = TrainerLoss(SONG(6), relevance())
    with pytest.raises(DataError, match=message):
        own.whole_lists(GRADES, MASK, number)


@pytest.mark.parametrize(
    ("lists", "labels", "message"),
    [
        (["one text"], [[1.0]], "the documents of a query are one text; expected a list of texts"),
        ([["a", "b"]], [[1.0]], "a query has 2 documents and 1 labels"),
        ([["a"]], [1.0], "the labels of a query are one number"),
        ([["a", "b"]], [[1.0, -1.0]], r"the labels of a query are \[1.0, -1.0\]; expected finite numbers of at least"),
        ([["a", "b"]], [[float("nan"), 1.0]], "expected finite numbers of at least 0"),
    ],
)
def test_invalid_lists_are_named(lists, labels, message):
    check_lists(DOCUMENTS, TENSORS)
    with pytest.raises(DataError, match=message):
        check_lists(lists, labels)


def test_processes_that_share_the_lists_hold_the_memory_of_one():
    """Two processes with half of each batch and one with all of it, whose memory is printed bit by bit."""
    work = Path(__file__).with_name("shared_memory.py")
    (alone,) = run_processes(1, work)
    both = run_processes(2, work)
    assert [done.returncode for done in (alone, *both)] == [0, 0, 0], both[0].stderr
    assert len(alone.stdout) > 100
    assert [done.stdout for done in both] == [alone.stdout] * 2
