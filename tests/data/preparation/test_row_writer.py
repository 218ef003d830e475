"""Sparse rows written to disk and read back."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from songrank.data.preparation.row_writer import RowWriter, stored_rows
from tests.data.preparation.prepared import few


@few
@given(st.lists(st.lists(st.integers(0, 99), max_size=6), min_size=1, max_size=20), st.randoms(), st.integers(1, 5))
def test_rows_come_back_in_any_order_and_in_pieces(tmp_path_factory, rows, random, most):
    writer = RowWriter(tmp_path_factory.mktemp("rows"), "x", {"word": np.int32})
    for row in rows:
        writer.append([len(row)], word=row)
    table = writer.finish()
    order = random.sample(range(len(rows)), len(rows))
    found = [
        piece["word"][a:b].tolist()
        for piece in table.pieces(np.array(order), most_rows=most)
        for a, b in zip(piece.offsets, piece.offsets[1:], strict=False)
    ]
    assert found == [rows[at] for at in order]
    stored = stored_rows(table, np.array(order), "x")
    assert np.concatenate([*stored["x.word"].pieces, []]).tolist() == [word for at in order for word in rows[at]]
    assert stored["x.offsets"].tolist() == np.cumsum([0, *(len(rows[at]) for at in order)]).tolist()
