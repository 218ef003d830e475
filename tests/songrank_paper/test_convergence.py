"""The figure of convergence."""

from songrank_paper.convergence import FigConvergence
from songrank_paper.protocol import SetProtocol
from songrank_paper.tables import TableLtr, TableRs
from tests.songrank_paper.small_training import TINY, chosen_first


def test_convergence_is_that_of_the_runs_in_the_tables(small):
    settings, _ = small
    figure, found = FigConvergence(TINY), {}
    for name in settings.data:
        found |= chosen_first(figure, SetProtocol(settings, name, TINY))
    for seed in (0, 1_000_000):
        found |= {SetProtocol(settings, name, TINY).warm_up(seed).cell.key: {} for name in settings.data}
    tables = {cell.key for table in (TableRs(TINY), TableLtr(TINY)) for cell in table.cells(settings, found)}
    cells = figure.cells(settings, found)
    assert len(cells) == 2 * (2 + 8 * (2 + 1))
    assert {cell.key for cell in cells} == tables
