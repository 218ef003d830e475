"""Helpers that tests of several modules share."""

from hypothesis import settings

from songrank.data import prepare
from tests.data.readers.labelled import write_files

HEAD = """% a comment
@RELATION 'my data'

@attribute length NUMERIC
@attribute 'two words' real
@attribute colour {red,'dark green',blue}
@attribute "is \\"odd\\"" {0, 1}
@attribute zoo {0,1}
@ATTRIBUTE\tant\t{0,1}

@DATA
"""

LABELS = '<label name="zoo"/><label name="ant"/>'

LIST = f'<?xml version="1.0"?><labels xmlns="http://mulan.sourceforge.net/labels">{LABELS}</labels>'

SPARSE = "{0 2.5,2 blue,4 1}\n% between\n\n{}\n{5 1 , 3 1, 1 -1}\n"

TEST = "1,1,'dark green',0,1,1\n"


def read(folder, train, test=TEST, head=HEAD, label_list=LIST, name="set", **options):
    files = {"x-train.arff": head + train, "x-test.arff": head + test}
    if label_list is not None:
        files["x.xml"] = label_list
    return prepare("arff", write_files(folder / f"{name}-source", files), folder / name, **options)


few = settings(derandomize=True, max_examples=60, deadline=None)

DENSE = "2.5,0,blue,0,1,0\n0,0,red,0,0,0\n0, -1 ,'red',1, 0,1\n"
