"""Sources of every reader, and the recipe of the runs."""

from typing import Any

SHORT = ("model.dim=4", "warm_up.epochs=1", "fine_tuning.epochs=2", "device=cpu")
CLICKS: dict[str, list[Any]] = {
    "user": [f"u{user}" for user in range(30) for _ in range(8)],
    "item": [f"i{(user * 3 + n * n) % 25}" for user in range(30) for n in range(8)],
    "rating": [float(1 + (user + n) % 5) for user in range(30) for n in range(8)],
    "time": [n for _ in range(30) for n in range(8)],
}
LETOR = "".join(f"{d} qid:{q} 1:0.{q} 2:{d} # doc\n" for q in range(1, 21) for d in (0, 1, 2))
TEXTS = "".join(f'{{"title": "text {n}", "content": "more words", "labels": ["a", "b{n % 3}"]}}\n' for n in range(20))
INPUTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "interactions": (
        "log.csv",
        "\n".join(
            [
                "user,item,rating,time",
                *map(",".join, zip(*[map(str, column) for column in CLICKS.values()], strict=True)),
            ]
        ),
        (),
    ),
    "movielens-1m": ("ratings.dat", "".join(f"{u}::{m}::4::{m}\n" for u in (1, 2, 3) for m in (1, 2, 3, 4)), ()),
    "movielens-20m": (
        "ratings.csv",
        "userId,movieId,rating,timestamp\n" + "".join(f"{u},{m},4.0,{m}\n" for u in (1, 2) for m in (1, 2, 3)),
        (),
    ),
    "sequences": (
        "users.txt",
        "".join(f"u{u} " + " ".join(f"i{(u + n) % 7}" for n in range(5)) + "\n" for u in range(9)),
        (),
    ),
    "letor": ("train.txt", LETOR, ()),
    "feature-table": (
        "table.csv",
        "query,label,f1,f2\n" + "".join(f"{q},{d},0.{q},{d}\n" for q in range(9) for d in (0, 1, 2)),
        (),
    ),
    "xmc": ("train.txt", "9 4 5\n" + "0,2 0:0.5 3:1\n1 1:2\n 2:1.5\n" * 3, ()),
    "xmc-text": ("texts.json", TEXTS, ()),
    "arff": (
        "data.arff",
        "@relation 'r: -C 2'\n@attribute f1 numeric\n@attribute l1 {0,1}\n@attribute l2 {0,1}\n@data\n"
        + "1.5,1,0\n2,0,1\n3,1,1\n" * 4,
        (),
    ),
}
