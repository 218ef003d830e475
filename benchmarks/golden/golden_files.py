"""Source files of golden.py: small deterministic files in every format."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import polars as pl


def write_raw(folder: Path) -> None:
    """Small files in every format, the same each time."""
    rng = random.Random(1)
    for name in ("netflix", "letor", "mslr/Fold1", "yahoo", "xmc", "texts", "lines", "arff"):
        (folder / name).mkdir(parents=True)

    def write(name: str, lines: Iterator[str] | list[str], encoding: str = "utf-8") -> None:
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding=encoding)

    rows = []
    for user in range(60):
        liked = [item for item in range(50) if (item + user) % 3 == 0] + rng.sample(range(50), 6)
        for item in rng.sample(liked, rng.randint(7, len(liked))):
            rows.append((user, item, 1 + (user + item + rng.randint(0, 1)) % 5, 1_000_000_000 + rng.randint(0, 10**7)))
    frame = pl.DataFrame(rows, schema=["user", "item", "rating", "timestamp"], orient="row")
    named = frame.with_columns(pl.format("u{}", "user").alias("user"), pl.format("i{}", "item").alias("item"))
    named.write_csv(folder / "clicks.csv")
    named.write_csv(folder / "clicks.tsv", separator="\t")
    named.with_columns(pl.from_epoch("timestamp")).write_parquet(folder / "clicks.parquet")
    write("odd.csv", ["who;what;colour", *(f"é{user};{item};red" for user, item, *_ in rows)], "latin-1")
    write("ratings.dat", [f"{u + 1}::{i + 1}::{r}::{t}" for u, i, r, t in rows])
    write("u.data", [f"{u + 1}\t{i + 1}\t{r}\t{t}" for u, i, r, t in rows])
    write(
        "ratings.csv", ["userId,movieId,rating,timestamp", *(f"{u + 1},{i + 1},{r - 0.5},{t}" for u, i, r, t in rows)]
    )
    for movie in range(12):
        by = [f"{u + 7},{r},2005-{1 + t % 12:02}-{1 + t % 28:02}" for u, i, r, t in rows if i == movie]
        with (folder / "netflix" / "combined_data_1.txt").open("a") as stream:
            stream.write("".join(f"{line}\n" for line in [f"{movie + 1}:", *by]))
    write(
        "sequences.txt",
        [f"{u} " + " ".join(str((3 * u + n * (1 + u % 2)) % 30) for n in range(5 + u % 9)) for u in range(50)],
    )
    write("users.csv", ["age,user", "30,u3", "31,nobody", "32,u17"])
    write("histories.csv", ["user,item,timestamp", *(f"new{n % 3},i{(7 * n) % 50},{n}" for n in range(15))])
    write("allow.csv", ["price,item", *(f"{n},i{n}" for n in range(0, 50, 2))])
    write("deny.txt", ["i4", "i8", "nothing"])

    def letor(count: int, first: int, features: int) -> Iterator[str]:
        for query in range(count):
            for document in range(rng.randint(3, 12)):
                label = rng.choice([0, 0, 0, 1, 2])
                values = [
                    label + rng.gauss(0, 1),
                    100 * rng.random() ** 4,
                    *(rng.random() for _ in range(features - 2)),
                ]
                words = [f"{at + 1}:{value:.4f}" for at, value in enumerate(values) if at == 0 or rng.random() < 0.9]
                yield f"{label} qid:{first + query} {' '.join(words)} # docid = {document}"

    for at, (split, count) in enumerate((("train", 40), ("vali", 15), ("test", 15))):
        write(f"letor/{split}.txt", letor(count, 100 * at, 5))
        write(f"mslr/Fold1/{split}.txt", letor(count, 100 * at, 136))
        write(f"yahoo/set1.{split.replace('vali', 'valid')}.txt", letor(count, 100 * at, 20))
    lists = [(q, rng.randint(0, 2), rng.gauss(0, 1), rng.random(), ("train", "validation", "test")[q % 3], 1.0 + q % 4)
             for q in range(45) for _ in range(rng.randint(3, 9))]  # fmt: skip
    documents = pl.DataFrame(lists, schema=["query", "label", "bm25", "age", "split", "weight"], orient="row")
    documents.write_csv(folder / "table.csv")
    documents.write_parquet(folder / "table.parquet")

    def topics(count: int) -> Iterator[tuple[int, int, list[int]]]:
        for _ in range(count):
            topic = rng.randrange(6)
            yield topic, 6 + rng.randrange(6), sorted({topic, 6 + topic, rng.randrange(20)})

    for split, count in (("train", 80), ("test", 30)):
        made = list(topics(count))
        bags = [f"{a},{b} " + " ".join(f"{word}:{1 + word % 3}" for word in words) for a, b, words in made]
        texts = [
            " ".join(f"{'Word' if word % 2 else 'word'}{word}" for word in words * 2) + ", the end."
            for *_, words in made
        ]
        objects = [
            {"text": text, "labels": [f"l{a}", f"l{b}"], "uid": f"{split}{at}"}
            for at, ((a, b, _), text) in enumerate(zip(made, texts, strict=True))
        ]
        write(f"xmc/{split}.txt", [f"{count} 20 12", *bags])
        write(f"texts/{split}.jsonl", [json.dumps(one) for one in objects])
        write(f"lines/{split}_texts.txt", texts)
        write(f"lines/{split}_labels.txt", [f"l{a} l{b}" for a, b, _ in made])
        head = [
            "@relation x",
            "@attribute size numeric",
            "@attribute colour {red,blue}",
            *(f"@attribute {name} {{0,1}}" for name in ("zoo", "ant")),
            "@data",
        ]
        write(
            f"arff/x-{split}.arff",
            head + [f"{a / 4},{'red' if b % 2 else 'blue'},{a % 2},{int(b > 8)}" for a, b, _ in made],
        )
        if split == "train":
            features = {f"f{at}": [float(a * at + b) for a, b, _ in made] for at in range(4)}
            pl.DataFrame({**features, "labels": [[a, b] for a, b, _ in made]}).write_parquet(folder / "labels.parquet")
    write(
        "arff/x.xml",
        ['<labels xmlns="http://mulan.sourceforge.net/labels"><label name="zoo"/><label name="ant"/></labels>'],
    )
    write("new.txt", ["word3 word9 the end", "Word1 word2", "nothing known"])
    write("new.csv", ["body,price", '"word3, word9",4', "Word5 word11,5"])
    write("broken.yaml", ["data: [1, 2"])
    write("no-k.yaml", ["data: data/clicks", "model: neumf", "loss: k-song", "fine_tuning: {epochs: 1}"])
    write("broken.csv", ["user,item,rating,timestamp", "u1,i1,5,7", "u2,i2", "u3,i3,5,7"])
    write("broken.dat", ["1::2::5::7", "1::2::five::7"])
    write("broken.txt", ["1 qid:1 1:0.5", "1 qid:1 1:x"])
    write("broken.jsonl", ['{"text": "a", "labels": ["b"]}', '{"text": "a"'])
