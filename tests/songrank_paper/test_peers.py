"""The figure of other implementations."""

from songrank_paper.peers import FigPeers
from tests.songrank_paper.small_training import TINY, do, plan


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
