"""What a user met without its being relevant is kept, so that it is never recommended."""

import random

from songrank.data import prepare


def met(dataset):
    seen = dataset["train"].seen
    users, items = list(dataset.query_ids), list(dataset.item_ids)
    return {(users[q], items[x]) for q in range(len(users)) for x in seen.take([q])["item"].tolist()}


def test_rows_of_label_0_and_below_the_least_rating(tmp_path):
    rng = random.Random(4)
    rows = [(f"u{user}", f"i{item}", rng.randint(0, 5)) for user in range(12) for item in rng.sample(range(30), 9)]
    columns = {"user": [r[0] for r in rows], "item": [r[1] for r in rows], "rating": [r[2] for r in rows]}
    for number, least in enumerate((1, 4)):
        dataset = prepare("interactions", columns, tmp_path / str(number), min_rating=least, split="none")
        kept_users, kept_items = set(dataset.query_ids), set(dataset.item_ids)
        expected = {(u, i) for u, i, y in rows if y < least and u in kept_users and i in kept_items}
        assert met(dataset) == expected
        assert expected


def test_nothing_is_stored_where_all_rows_count(tmp_path):
    columns = {"user": [1, 1, 2, 2], "item": [1, 2, 2, 3]}
    assert prepare("interactions", columns, tmp_path / "data", split="none")["train"].seen is None
