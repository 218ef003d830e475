"""A table of broken inputs of every kind: each gives one line that says what, where and what to do, and exit code 2.

A row: the kind, the files by name (an archive if the name ends in .zip and the content is a dict), what is named on the
command line, more options, and the words that the message must hold. A name that ends in "/" is a folder.
"""

import gzip
import io
import os
import re
import signal
import sys

import polars as pl
import pytest

from songrank.cli import main
from tests.data.folders import write_zip

DAT = "".join(f"{user}::{movie}::4::{movie}\n" for user in (1, 2) for movie in (1, 2, 3))
CSV = "userId,movieId,rating,timestamp\n" + "".join(f"{u},{m},4.0,{m}\n" for u in (1, 2) for m in (1, 2, 3))
TABLE = "user,item,rating,time\n" + "".join(f"u{u},i{m},4.0,{m}\n" for u in (1, 2) for m in (1, 2, 3))
IR = "user_procid\titem_procid\n" + "".join(f"{u}\t{m}\n" for u in (0, 1) for m in (0, 1))
LETOR = "".join(f"{d} qid:{q} 1:0.5 2:{d} # doc\n" for q in range(1, 21) for d in (0, 1, 2))
XMC = "3 4 5\n0,2 0:0.5 3:1\n1 1:2\n 2:1.5\n"
ARFF = "@relation r\n@attribute f1 numeric\n@attribute l1 {0,1}\n@attribute l2 {0,1}\n@data\n1.5,1,0\n2,0,1\n3,1,1\n"
XML = '<labels xmlns="http://mulan.sourceforge.net/labels"><label name="l1"></label><label name="l2"></label></labels>'
JSON = "".join(f'{{"title": "text {i}", "content": "more words", "labels": ["a", "b{i % 3}"]}}\n' for i in range(20))
NETFLIX = "1:\n5,3,2005-01-01\n6,4,2005-01-02\n2:\n5,3,2005-01-03\n6,4,2005-01-02\n3:\n5,3,2005-01-03\n6,4,2005-01-02\n"


def truncated_zip():
    stream = io.BytesIO()
    write_zip(stream, {"ml-1m/ratings.dat": os.urandom(5000).hex()})
    return stream.getvalue()[:4000]


def replaced(text, line, new):
    """The text with one line (from 1) exchanged."""
    lines = text.split("\n")
    lines[line - 1] = new
    return "\n".join(lines)


def one(kind, name, content, *words, more=(), id=None):
    """A row with one file, which is named on the command line."""
    return pytest.param(kind, {name: content}, name, more, words, id=id)


# fmt: off
ROWS = [
    # archives, folders and files
    one("movielens-1m", "ml-1m.zip", truncated_zip(), "ml-1m.zip: is truncated or damaged", "download or copy it again", id="truncated zip"),
    one("movielens-1m", "ml-1m.zip", b"PK no", "ml-1m.zip: is truncated or damaged", id="not a zip"),
    one("movielens-1m", "ml-1m.zip", {"a/other.dat": DAT}, "contains no ratings.dat", "found a/other.dat", id="zip without ratings"),
    one("movielens-1m", "ml-1m.zip", {"a/ratings.dat": DAT, "b/ratings.dat": DAT}, "contains 2 files ratings.dat", "pass one of them", id="two ratings files"),
    one("movielens-1m", "ratings.dat.gz", gzip.compress(DAT.encode())[:-12], "ratings.dat.gz: is truncated or damaged", id="truncated gzip"),
    one("movielens-1m", "folder/", None, "contains no ratings.dat", "it is empty", id="empty directory"),
    one("sequences", "folder/", None, "folder: contains no text file with one line per user", id="directory instead of file"),
    pytest.param("movielens-1m", {}, "nowhere.dat", (), ["nowhere.dat: does not exist", "check the path"], id="no such file"),
    one("movielens-1m", "ratings.dat", b"", "ratings.dat: is empty", "expected at least one line", id="empty file"),
    one("movielens-1m", "ratings.dat", b"\n\n \n", "no interaction is left", id="blank lines only"),
    one("movielens-1m", "ratings.dat", DAT.encode("utf-16"), "ratings.dat, line 1: is encoded in UTF-16", "convert it to UTF-8", id="UTF-16"),
    one("movielens-1m", "ratings.dat", DAT[:30] + "\0" + DAT[30:], "ratings.dat, line 3: contains a NUL byte", id="NUL byte"),
    # MovieLens
    one("movielens-1m", "ratings.dat", DAT.replace("::", ","), "ratings.dat, line 1: has 1 columns", "separated by '::'", id="wrong delimiter"),
    one("movielens-100k", "u.data", DAT, "u.data, line 1: has 1 columns", "separated by tabs", id="colons for tabs"),
    one("movielens-1m", "ratings.dat", replaced(DAT, 4, "2::1::4"), "ratings.dat, line 4: has 3 columns", id="short line"),
    one("movielens-1m", "ratings.dat", replaced(DAT, 4, "2::1::4::5::6"), "ratings.dat, line 4: has 5 columns", id="long line"),
    one("movielens-1m", "ratings.dat", replaced(DAT, 2, "1::2::four::5"), "line 2: rating is 'four'; expected a number", id="text in a number column"),
    one("movielens-1m", "ratings.dat", replaced(DAT, 2, "1::2::nan::5"), "line 2: rating is 'nan'", id="NaN rating"),
    one("movielens-1m", "ratings.dat", replaced(DAT, 2, "1::2::inf::5"), "line 2: rating is 'inf'", id="infinite rating"),
    one("movielens-1m", "ratings.dat", replaced(DAT, 2, "1::2::-3::5"), "line 2: rating is '-3'", id="negative rating"),
    one("movielens-1m", "ratings.dat", replaced(DAT, 3, "-7::2::3::5"), "line 3: user is '-7'; expected a whole number", id="negative id"),
    one("movielens-1m", "ratings.dat", replaced(DAT, 3, "7::99999999999::3::5"), "line 3: movie is '99999999999'", id="huge id"),
    one("movielens-1m", "ratings.dat", replaced(DAT, 3, "7::2.5::3::5"), "line 3: movie is '2.5'", id="fractional id"),
    one("movielens-1m", "ratings.dat", replaced(DAT, 6, "7::2::3::now"), "line 6: timestamp is 'now'", id="text for a time"),
    one("movielens-1m", "ratings.dat", replaced(DAT, 2, "1::2::caf\xe9::5").encode("latin-1"), "line 2: rating is 'caf\\xe9'", id="Latin-1 bytes"),
    one("movielens-20m", "ratings.csv", CSV.replace("userId", "user"), "ratings.csv, line 1: the first line is", "expected userId,movieId", id="wrong header"),
    one("movielens-20m", "ratings.csv", CSV.partition("\n")[2], "ratings.csv, line 1: the first line is '1,1,4.0,1'", id="no header"),
    one("movielens-1m", "ratings.dat", DAT[: len(DAT) // 2], "ratings.dat: only one query is left", "at least two users", id="one user"),
    one("movielens-1m", "ratings.dat", "1::1::3::5\n2::1::3::5\n", "no user has 3 interactions", "use split random, time or none", id="too short to split"),
    one("movielens-1m", "ratings.dat", DAT.replace("::4::", "::0::"), "ratings.dat: no rating is above 0", id="all ratings 0"),
    one("movielens-1m", "ratings.dat", DAT, "ratings.dat: no interaction is left", "lower min_interactions", more=["--min-interactions", "9"], id="filter takes all"),
    one("movielens-1m", "ratings.dat", DAT, "are incompatible; expected validation 0.5 + test 0.6 below 1", more=["--split", "random", "--test", "0.6", "--validation", "0.5"], id="fractions above 1"),
    # Netflix
    one("netflix", "combined_data_1.txt", NETFLIX[3:], "line 1: rating before the first movie", more=["--min-interactions", "1"], id="no movie first"),
    one("netflix", "combined_data_1.txt", replaced(NETFLIX, 3, "6,9,2005-01-02"), "line 3: line is '6,9,2005-01-02'", "rating from 1 to 5", id="rating 9"),
    one("netflix", "combined_data_1.txt", replaced(NETFLIX, 3, "6,4,2005-02-30"), "line 3: date is '2005-02-30'", id="no such day"),
    one("netflix", "combined_data_1.txt", replaced(NETFLIX, 4, "2;"), "line 4: line is '2;'", id="wrong movie line"),
    # tables
    one("interactions", "log.csv", TABLE.replace(",", " "), "log.csv: cannot find the user", "--user-column", id="unknown delimiter"),
    one("interactions", "log.csv", TABLE, "log.csv: has no item column 'movie'", "columns are 'user', 'item'", more=["--item-column", "movie"], id="no such column"),
    one("interactions", "log.csv", replaced(TABLE, 3, "u1,i2,four,2"), "log.csv, line 3: rating is 'four'", id="text rating in a table"),
    one("interactions", "log.csv", replaced(TABLE, 3, "u1,i2,NaN,2"), "log.csv, line 3: rating is 'NaN'", id="NaN rating in a table"),
    one("interactions", "log.csv", replaced(TABLE, 3, "u1,i2,-1,2"), "log.csv, line 3: rating is '-1'", id="negative rating in a table"),
    one("interactions", "log.csv", replaced(TABLE, 5, ",i2,1,2"), "log.csv, line 5: user is missing", id="missing id"),
    one("interactions", "log.csv", replaced(TABLE, 5, "u1,i2,1,soon"), "log.csv, line 5: time is 'soon'", "such as 2024-05-31", id="text for a time in a table"),
    one("interactions", "log.csv", replaced(TABLE, 4, "u1,i2,1,2,9"), "log.csv, line 4: has 5 columns", "expected 4", id="header disagrees with the rows"),
    one("interactions", "log.csv", replaced(TABLE, 4, "u1,i2"), "log.csv, line 4: has 2 columns", "expected 4", id="short row"),
    one("interactions", "log.csv", replaced(TABLE, 1, "user,item,rating,rating"), "log.csv, line 1: the first line is", "expected unique column names", id="column twice"),
    one("interactions", "log.csv", replaced(TABLE, 4, 'u1,"i2,1,2'), "log.csv", id="open quote"),
    one("interactions", "log.csv", TABLE.replace("\n", "\r"), "log.csv, line 1: the first line is", id="old Macintosh line ends"),
    one("interactions", "log.csv", "user,item\n", "log.csv: has no rows", id="header only"),
    one("interactions", "log.csv", TABLE.replace("u1", "u\xe9").encode("latin-1"), "log.csv, line 2: byte 0xe9 is not UTF-8", "pass --encoding, e.g. latin-1", id="Latin-1 table"),
    one("interactions", "log.csv", TABLE, "separator is '::'; expected one character", more=["--separator", "::"], id="separator of two characters"),
    one("interactions", "log.csv", TABLE, "encoding is 'klingon'", more=["--encoding", "klingon"], id="unknown encoding"),
    one("interactions", "log.csv", replaced(TABLE, 3, "u1,i1,4.0,2"), "user 'u1' and item 'i1' are repeated", more=["--duplicates", "error"], id="duplicates are an error"),
    one("interactions", "log.parquet", b"PAR1 but no more", "log.parquet: is not a valid Parquet file", id="damaged Parquet"),
    one("interactions", "log.csv", "user,item\n1,2\n1,3\n2,3\n", "split time needs times", more=["--split", "time"], id="time split without times"),
    # given splits
    one("interactions", "log.csv", replaced(TABLE, 1, "user,item,rating,split").replace(",4.0,1", ",4.0,train").replace(",4.0,2", ",4.0,tets"), "log.csv, line 3: split is 'tets'", "unknown values are 'tets', '3'", more=["--split-column", "split"], id="unknown splits"),
    one("interactions", "log.csv", TABLE, "log.csv: has no split column 'part'", more=["--split-column", "part"], id="no split column"),
    one("interactions", "log.csv", "user,item,part\n1,2,test\n2,2,dev\n", "log.csv: the source has rows for validation and test, but none for training", more=["--split-column", "part"], id="split column without training"),
    pytest.param("interactions", {"a.csv": TABLE, "b.csv": TABLE.replace(",time", ",when")}, "--train=a.csv", ["--test", "b.csv"], ["b.csv: columns differ from the previous file", "equal columns"], id="files with other columns"),
    pytest.param("interactions", {"a.csv": TABLE}, "--train=a.csv", ["--test", "b.csv"], ["b.csv: does not exist", "check the path"], id="no such test file"),
    pytest.param("interactions", {"a.csv": TABLE}, "--train=a.csv", ["--test", "a.csv"], ["a.csv: no test pair is left, of 6: 6 also in training"], id="test file is the training file"),
    pytest.param("interactions", {"a.csv": TABLE, "b.csv": TABLE.replace("user", "w")}, "--train=a.csv", ["--validation", "b.csv"], ["b.csv: cannot find the user"], id="validation file without users"),
    pytest.param("interactions", {"a.csv": TABLE, "b.csv": replaced(TABLE, 3, "u1,i9,-1,2")}, "--train=a.csv", ["--test", "b.csv"], ["b.csv, line 3: rating is '-1'"], id="negative rating in a test file"),
    pytest.param("interactions", {"a.csv": TABLE}, "a.csv", ["--train", "a.csv"], ["the source and the option train, a.csv, are given", "pass one of the two"], id="source and training file"),
    pytest.param("interactions", {"a.csv": TABLE}, "a.csv", ["--test", "b.csv"], ["expected train with test b.csv"], id="test file without training file"),
    pytest.param("interactions", {"a.csv": TABLE}, "--train=a.csv", ["--validation", "1.5"], ["validation is '1.5'; expected a fraction from 0 to below 1, or a file"], id="validation fraction above 1"),
    pytest.param("interactions", {"a.csv": TABLE}, "--train=a.csv", ["--test", "0.1"], ["expected a file for test"], id="test fraction with a training file"),
    # IR-Benchmark
    one("ir-benchmark", "b.zip", {"a/train.tsv": IR, "a/test.tsv": IR, "b/train.tsv": IR, "b/test.tsv": IR}, "b.zip: contains 2 sets", "pass --set with one of a, b", id="several sets"),
    one("ir-benchmark", "b.zip", {"a/train.tsv": IR, "a/test.tsv": IR}, "b.zip: contains no set 'c'", "one of a", more=["--set", "c"], id="no such set"),
    one("ir-benchmark", "b.zip", {"a/train.tsv": IR}, "b.zip: set a has no test.tsv", id="set without a test file"),
    one("ir-benchmark", "b.zip", {"a/train.tsv": IR.replace("procid", "id"), "a/test.tsv": IR}, "b.zip/a/train.tsv, line 1: the first line has columns 'user_id', 'item_id'", "expected 'user_procid', 'item_procid'", id="other header"),
    one("ir-benchmark", "b.zip", {"a/train.tsv": IR, "a/test.tsv": IR}, "b.zip: no test pair is left", "4 also in training", more=["--validation", "0"], id="equal files of a set"),
    one("ir-benchmark", "b.zip", {"a/train.tsv": replaced(IR, 3, "0"), "a/test.tsv": IR}, "b.zip/a/train.tsv, line 3: has 1 columns", id="short row of a set"),
    # sequences
    one("sequences", "s.txt", "1 2 3 4\n2,3,4,5\n", "s.txt, line 2: user '2,3,4,5' has no items", "separated by spaces", id="commas in sequences"),
    one("sequences", "s.txt", "1 2 3 4\n2 1 3 5\n1 5 6 7\n", "s.txt, line 3: user '1' is repeated from line 1", id="user twice"),
    one("sequences", "s.zip", {"a.txt": "1 2 3 4\n", "b.txt": "1 2 3\n"}, "s.zip: contains 2 text files", "s.zip/a.txt", id="which file of the archive"),
    # LETOR
    one("letor", "rows.txt", replaced(LETOR, 3, "good qid:1 1:0.5"), "rows.txt, line 3:", "good", id="label that is not a number"),
    one("letor", "rows.txt", replaced(LETOR, 3, "-1 qid:1 1:0.5"), "rows.txt, line 3:", "-1", id="negative label"),
    one("letor", "rows.txt", replaced(LETOR, 3, "nan qid:1 1:0.5"), "rows.txt, line 3:", "nan", id="NaN label"),
    one("letor", "rows.txt", replaced(LETOR, 4, "1 1:0.5 2:1"), "rows.txt, line 4:", "qid", id="qid missing on one line"),
    one("letor", "rows.txt", re.sub("qid:[0-9]+ ", "", LETOR), "rows.txt", "qid", id="qid missing everywhere"),
    one("letor", "rows.txt", replaced(LETOR, 2, "1 qid: 1:0.5"), "rows.txt, line 2:", id="empty qid"),
    one("letor", "rows.txt", replaced(LETOR, 5, "1 qid:2 0:0.5 1:1"), "rows.txt, line 5:", "0", id="feature index 0"),
    one("letor", "rows.txt", replaced(LETOR, 5, "1 qid:2 1:0.5 1:1"), "rows.txt, line 5:", "1", id="feature index repeated"),
    one("letor", "rows.txt", replaced(LETOR, 5, "1 qid:2 2:0.5 1:1"), "rows.txt, line 5:", id="feature index descending"),
    one("letor", "rows.txt", replaced(LETOR, 5, "1 qid:2 x:0.5"), "rows.txt, line 5:", "x", id="feature index that is no number"),
    one("letor", "rows.txt", replaced(LETOR, 5, "1 qid:2 99999999999:1"), "rows.txt, line 5:", "99999999999", id="feature index huge"),
    one("letor", "rows.txt", replaced(LETOR, 5, "1 qid:2 1:abc"), "rows.txt, line 5:", "abc", id="feature value that is no number"),
    one("letor", "rows.txt", replaced(LETOR, 5, "1 qid:2 1:nan"), "rows.txt, line 5:", "nan", id="feature value NaN"),
    one("letor", "rows.txt", replaced(LETOR, 5, "1 qid:2 0.5"), "rows.txt, line 5:", "0.5", id="feature without index"),
    one("letor", "rows.txt", "".join(f"{d} qid:7 1:{d}\n" for d in range(5)), "quer", id="one query"),
    one("letor", "rows.txt", LETOR.replace("1 qid", "0 qid").replace("2 qid", "0 qid"), "is above 0", "check the labels", id="all labels 0"),
    pytest.param("letor", {"d/rank.train": "1 1:2\n0 1:3\n", "d/rank.train.query": "1\n3\n"}, "d", (), ["rank.train.query", "4", "2"], id="group sizes do not fit"),
    pytest.param("letor", {"d/rank.train": "1 1:2\n0 1:3\n", "d/rank.train.query": "2\nx\n"}, "d", (), ["rank.train.query, line 2:", "x"], id="group size that is no number"),
    pytest.param("letor", {"d/train.txt": LETOR, "d/test.txt": LETOR}, "d", (), ["1", "train", "test"], id="query in two splits"),
    pytest.param("mslr-web30k", {"d/Fold1/train.txt": LETOR}, "d", ["--fold", "3"], ["fold", "3"], id="no such fold"),
    # feature tables
    one("feature-table", "t.csv", "qid,label,f\n1,1,0.5\n1,0,x\n2,1,1\n", "t.csv", "f", id="text among features"),
    one("feature-table", "t.csv", "a,b\n1,2\n", "t.csv", "query", id="no query column"),
    one("feature-table", "t.csv", "qid,label,f\n1,bad,0.5\n2,1,1\n", "t.csv", "bad", id="text label in a table"),
    # Extreme Classification
    one("xmc", "x.txt", "", "x.txt: is empty", id="empty bag of words"),
    one("xmc", "x.txt", XMC.replace("3 4 5", "3 4"), "x.txt, line 1:", id="header too short"),
    one("xmc", "x.txt", XMC.replace("3 4 5", "a b c"), "x.txt, line 1:", id="header of words"),
    one("xmc", "x.txt", XMC.replace("3 4 5", "7 4 5"), "x.txt", "7", "3", id="header with other row count"),
    one("xmc", "x.txt", XMC.replace("0,2 ", "0,9 "), "x.txt, line 2:", "9", id="label beyond the header"),
    one("xmc", "x.txt", XMC.replace("0,2 ", "0,-2 "), "x.txt, line 2:", id="negative xmc label"),
    one("xmc", "x.txt", XMC.replace("3:1", "30:1"), "x.txt, line 2:", "30", id="feature beyond the header"),
    one("xmc", "x.txt", XMC.replace("1:2", "1:two"), "x.txt, line 3:", "two", id="xmc value that is no number"),
    # raw text
    one("xmc-text", "t.json", replaced(JSON, 7, '{"title": "x", '), "t.json, line 7:", id="broken JSON"),
    one("xmc-text", "t.json", replaced(JSON, 7, '{"title": "x"}'), "t.json, line 7:", "label", id="JSON without labels"),
    one("xmc-text", "t.json", replaced(JSON, 7, '{"labels": ["a"]}'), "t.json, line 7:", id="JSON without text"),
    one("xmc-text", "t.json", replaced(JSON, 7, '[1, 2]'), "t.json, line 7:", id="JSON that is no object"),
    pytest.param("xmc-text", {"d/train_texts.txt": "a\nb\n", "d/train_labels.txt": "x\n", "d/test_texts.txt": "c\n", "d/test_labels.txt": "x\n"}, "d", (), ["train_", "2", "1"], id="texts and labels differ in number"),
    # ARFF
    pytest.param("arff", {"d/a.arff": ARFF.partition("@data")[0], "d/a.xml": XML}, "d", (), ["a.arff"], id="ARFF without data"),
    pytest.param("arff", {"d/a.arff": ARFF.replace("f1 numeric", "f1 complex"), "d/a.xml": XML}, "d", (), ["a.arff, line 2:", "complex"], id="ARFF of unknown type"),
    pytest.param("arff", {"d/a.arff": replaced(ARFF, 7, "2,0"), "d/a.xml": XML}, "d", (), ["a.arff, line 7:"], id="ARFF row too short"),
    pytest.param("arff", {"d/a.arff": ARFF, "d/a.xml": XML.replace("l2", "l9")}, "d", (), ["l9"], id="label that is no attribute"),
    pytest.param("arff", {"d/a.arff": ARFF, "d/a.xml": "<labels>"}, "d", (), ["a.xml"], id="broken XML"),
]
# fmt: on


def build(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir()
        elif isinstance(content, dict):
            write_zip(path, content)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize(("kind", "files", "named", "more", "words"), ROWS)
def test_a_broken_input_is_one_line_with_file_and_remedy(kind, files, named, more, words, tmp_path, monkeypatch, capfd):
    build(tmp_path, files)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["songrank", "data", "prepare", kind, named, "-o", "out", *more])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capfd.readouterr()
    assert ended.value.code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "; " in err  # what is wrong; what to do
    for word in words:
        assert word in err
    assert sorted(tmp_path.rglob("*")) == before


def test_there_are_at_least_sixty():
    assert len(ROWS) >= 60
    assert len({row.id for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        ("movielens-1m", "ratings.dat", DAT),
        ("movielens-20m", "ratings.csv", CSV),
        ("interactions", "log.csv", TABLE),
        ("sequences", "s.txt", "1 2 3 4\n2 3 4 5\n"),
        ("letor", "rows.txt", LETOR),
        ("arff", "a.arff", ARFF.replace("relation r", "relation 'r: -C -2'")),
        ("xmc-text", "t.json", JSON),
        ("xmc", "x.txt", XMC),
    ],
)
def test_a_byte_order_mark_and_windows_line_ends_change_nothing(kind, name, text, tmp_path):
    from songrank.data import prepare

    options = {} if kind in ("movielens-1m", "movielens-20m", "interactions", "sequences") else {"test": 0.34}
    (tmp_path / name).write_bytes(text.encode())
    plain = prepare(kind, tmp_path / name, tmp_path / "plain", **options)
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    marked = prepare(kind, tmp_path / name, tmp_path / "marked", **options)
    for file in sorted(plain.path.glob("*.safetensors")):
        assert file.read_bytes() == (marked.path / file.name).read_bytes()


def test_the_same_for_parquet_with_missing_values(tmp_path):
    from songrank.data import DataError, prepare

    pl.DataFrame({"user": ["a", None], "item": [1, 2]}).write_parquet(tmp_path / "log.parquet")
    with pytest.raises(DataError, match=r"log\.parquet: row 2: user is missing; expected an id"):
        prepare("interactions", tmp_path / "log.parquet", tmp_path / "out")
