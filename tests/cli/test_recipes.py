"""The recipes that are shipped, and the demonstration."""


def test_one_that_is_not_there_is_one_line(songrank):
    done = songrank("recipes", "movielens")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
