"""The figure of other implementations."""

from songrank_paper.experiment import Plan
from songrank_paper.peers import FigPeers
from tests.songrank_paper.small_training import TINY, do, plan, users


def test_peers_train_as_long_and_the_clock_runs(small):
    settings, folder = small
    _, findings = do(FigPeers(TINY), settings, folder)
    lines = {line.get_label(): list(line.get_xdata()) for line in findings.figures["curves"].axes[0].get_lines()}
    assert {"SONG", "K-SONG", "ListNet", "ListMLE", "ApproxNDCG", "Gumbel-ApproxNDCG"} <= lines.keys()
    assert all(epochs == [1, 2, 3, 4, 5] for epochs in lines.values())
    assert all(row[1] > 0 for row in findings.tables["seconds"].rows)
    assert len(findings.tables["seconds"].rows) == len(lines)
    assert any("TensorFlow Ranking itself was not run" in remark for remark in findings.remarks)


def test_peers_that_diverge_are_said_and_left_out(small):
    settings = plan((0, 1), movielens_1m=small[0].data["movielens-1m"])
    figure, found = FigPeers(TINY), {}
    while missing := [cell for cell in figure.cells(settings, found) if cell.key not in found]:
        for cell in missing:
            lost = cell.options["recipe"]["loss"]["name"] == "listmle" and cell.options["recipe"]["seed"] == 0
            result = {"seconds": 2.0, "curve": [[1, 0.1], [2, 0.2]], "warm_up": []}
            found[cell.key] = {"diverged": "step 3"} if lost else result
            assert cell.timed == cell.name.endswith("timed, seed 0")
    findings = figure.show(settings, found)
    assert "movielens-1m: ListMLE diverged with 1 of 2 seeds." in findings.remarks
    assert "ListMLE diverged within the timed epochs." in findings.remarks
    assert "ListMLE" not in [row[0] for row in findings.tables["seconds"].rows]


def epochs_by_loss(name, folder, changes=()):
    """(warm-up, rest) of each loss on a set, warm-ups and timed runs left out."""
    settings = Plan(data={name: users(folder)})
    found = {}
    for _ in range(2):  # runs after a warm-up are only listed once it is done
        cells = FigPeers(changes).cells(settings, found)
        found |= {cell.key: {"seconds": 1.0, "curve": [], "warm_up": []} for cell in cells}
    recipes = {cell.options["recipe"]["loss"]["name"]: cell.options["recipe"] for cell in cells if named(cell)}
    return {loss: (recipe["warm_up"]["epochs"], recipe["fine_tuning"]["epochs"]) for loss, recipe in recipes.items()}


def named(cell):
    return "timed" not in cell.name and "warm-up" not in cell.name


def test_on_movielens_20m_the_epochs_are_the_papers_20_and_100(tmp_path):
    found = epochs_by_loss("movielens-20m", tmp_path / "data")
    assert found["song"] == found["k-song"] == (20, 100)
    others = {"softmax", "listmle", "approx-ndcg", "gumbel-approx-ndcg"}
    assert {loss: found[loss] for loss in others} == dict.fromkeys(others, (0, 120))


def test_fewer_epochs_may_be_given_and_other_sets_keep_their_schedule(tmp_path):
    assert epochs_by_loss("movielens-20m", tmp_path / "few", TINY)["song"] == (2, 3)
    found = epochs_by_loss("netflix", tmp_path / "other")
    assert (found["song"], found["softmax"]) == ((20, 120), (0, 140))


def test_listnet_and_listmle_have_the_definitions_of_tensorflow_ranking(tmp_path):
    settings = Plan(quick=True, data={"netflix": users(tmp_path)}, seeds=(0,))
    works = {cell.name: (cell.work, cell.options["recipe"]["loss"]["name"]) for cell in FigPeers().cells(settings, {})}
    assert works["netflix: ListNet alone, seed 0"] == ("songrank_paper.runs:train", "softmax")
    assert works["netflix: ListMLE alone, seed 0"] == ("songrank_paper.peer_runs:train_listmle", "listmle")
    assert works["netflix: ListMLE, timed, seed 0"] == ("songrank_paper.peer_runs:time_listmle", "listmle")
