"""Fixtures that tests of several modules share."""

import pytest

from songrank_paper.protocol import SetProtocol
from songrank_paper.workers import Workers
from tests.songrank_paper.small_training import TINY, lists, plan, users


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A plan with one seed and two small sets, and one folder for all cells."""
    folder = tmp_path_factory.mktemp("figures")
    return plan((0,), movielens_1m=users(folder / "users"), mq2008=lists(folder / "lists")), folder


@pytest.fixture(scope="module")
def pair():
    """Two processes, which take seconds to start."""
    with Workers(2) as workers:
        yield workers


@pytest.fixture(scope="module")
def small_users(tmp_path_factory):
    return users(tmp_path_factory.mktemp("data") / "users")


@pytest.fixture(scope="module")
def each(small_users):
    return SetProtocol(plan(movielens_20m=small_users), "movielens-20m", TINY)
