"""Titles, genres and users of MovieLens."""

import pytest

from songrank.core.errors import DataError
from songrank.data import prepare
from tests.data.folders import write_zip

_PAIRS = [(u, m, 1 + (u + m) % 5, 100 * u + m) for u in range(1, 7) for m in range(1, 6)]
_COLONS = {
    "ml-1m/ratings.dat": "".join(f"{u}::{m}::{r}::{t}\n" for u, m, r, t in _PAIRS),
    "ml-1m/movies.dat": "1::Toy Story (1995)::Animation|Comedy\n2::Café, The (1996)::Comedy\n"
    "3::No Year::Drama\n4::A::B::Drama\n5::E (1999)::Drama|Comedy\n9::Never seen (2000)::Animation\n".encode("latin-1"),
    "ml-1m/users.dat": "".join(f"{u}::{'FM'[u % 2]}::25::{u % 2}::10001\n" for u in range(1, 7)),
}


def columns(dataset, word):
    return [(column["name"], column["kind"]) for column in dataset.info[f"{word}_features"]["columns"]]


def test_movies_and_users_of_1m(tmp_path):
    source = write_zip(tmp_path / "ml-1m.zip", _COLONS)
    dataset = prepare("movielens-1m", source, tmp_path / "set", features=True)
    assert dataset.item_ids[:] == [1, 2, 3, 4, 5, 9]
    assert columns(dataset, "item") == [("genres", "multi-valued"), ("year", "numeric")]  # no word is in five titles
    assert columns(dataset, "user") == [
        ("gender", "categorical"),
        ("age", "categorical"),
        ("occupation", "categorical"),
    ]
    assert dataset.features["item"].trained.tolist()[-1] is False


def test_movies_and_users_of_100k(tmp_path):
    flags = {1: 5, 2: 8, 3: 8, 4: 5, 5: 5}
    (tmp_path / "u.data").write_text("".join(f"{u}\t{m}\t{r}\t{t}\n" for u, m, r, t in _PAIRS))
    rows = (
        f"{m}|T{m} (1995)|01-Jan-1995||http://x|{'|'.join('01'[f == g] for g in range(19))}" for m, f in flags.items()
    )
    (tmp_path / "u.item").write_text("\n".join(rows) + "\n")
    (tmp_path / "u.user").write_text("".join(f"{u}|24|{'FM'[u % 2]}|writer|85711\n" for u in range(1, 7)))
    dataset = prepare("movielens-100k", tmp_path, tmp_path.parent / f"{tmp_path.name}-set", features=True)
    assert columns(dataset, "item")[0] == ("genres", "multi-valued")
    assert [text for text in (dataset.path / "dataset.json").read_text().split('"') if text == "gender"]


def test_movies_of_the_csv_sets(tmp_path):
    text = "userId,movieId,rating,timestamp\n" + "".join(f"{u},{m},{r},{t}\n" for u, m, r, t in _PAIRS)
    movies = 'movieId,title,genres\n1,"Story, A (1995)",Comedy|Drama\n2,B (1996),Comedy\n3,C,(no genres listed)\n'
    source = write_zip(tmp_path / "ml-20m.zip", {"ratings.csv": text, "movies.csv": movies + "4,D,Drama\n5,E,Drama\n"})
    dataset = prepare("movielens-20m", source, tmp_path / "set", features=True)
    assert "user" not in dataset.features
    assert columns(dataset, "item")[0] == ("genres", "multi-valued")


def test_a_broken_line_is_an_error_with_its_number(tmp_path):
    source = write_zip(tmp_path / "ml-1m.zip", {**_COLONS, "ml-1m/movies.dat": "1::A::Drama\nx::B::Drama\n"})
    with pytest.raises(DataError, match=r"movies\.dat, line 2: is 'x::B::Drama'; expected a line of MovieLens"):
        prepare("movielens-1m", source, tmp_path / "set", features=True)


def test_a_missing_table_is_an_error(tmp_path):
    source = write_zip(tmp_path / "ml-1m.zip", {"ratings.dat": _COLONS["ml-1m/ratings.dat"]})
    with pytest.raises(DataError, match=r"contains no movies\.dat"):
        prepare("movielens-1m", source, tmp_path / "set", features=True)
