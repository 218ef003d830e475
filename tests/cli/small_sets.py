"""Small files of the three tasks, as a user has them, and a recipe for each."""

import random

STAGE = "{epochs: 3, learning_rate: 0.01, decay: {2: 0.5}}"


def ratings(folder):
    rng = random.Random(1)
    lines = []
    for user in range(40):
        for time, movie in enumerate(rng.sample(range(60), 12)):
            lines.append(f"{user + 1}::{movie + 1}::{1 + (user + movie) % 5}::{time}\n")
    (folder / "ratings.dat").write_text("".join(lines))
    return (
        ["movielens-1m", folder / "ratings.dat"],
        "{name: neumf, dim: 8, hidden: [8]}",
        "{queries: 16, irrelevant: 20}",
    )


def lists(folder):
    rng = random.Random(2)
    for number, name in enumerate(("train", "vali", "test")):
        lines = []
        for query in range(30 if name == "train" else 12):
            for _ in range(rng.randint(3, 9)):
                label = rng.randint(0, 2)
                features = [label + rng.gauss(0, 1), rng.random(), rng.random()]
                words = " ".join(f"{at + 1}:{value:.4f}" for at, value in enumerate(features))
                lines.append(f"{label} qid:{100 * number + query} {words}\n")
        (folder / f"{name}.txt").write_text("".join(lines))
    return (
        ["letor", folder, "--standardise"],
        "{name: context-aware, dim: 8, feed_forward: 8}",
        "{queries: 8, length: all}",
    )


def labels(folder):
    rng = random.Random(3)
    for name, count in (("train", 40), ("test", 15)):
        rows = []
        for _ in range(count):
            topic = rng.randrange(6)
            words = sorted({topic, 6 + topic, rng.randrange(20)})
            rows.append(f"{topic},{6 + rng.randrange(6)} " + " ".join(f"{word}:1" for word in words) + "\n")
        (folder / f"{name}.txt").write_text(f"{count} 20 12\n" + "".join(rows))
    options = ["xmc", folder, "--validation", "0.2", "--scale", "l2"]
    return options, "{name: label-mlp, hidden: [16]}", "{queries: 8, relevant: all, irrelevant: all}"


TASKS = {"recommendation": ratings, "search": lists, "labelling": labels}


def recipe(folder, task):
    """Write the files of a task and a recipe for them; the words that prepare them, and the recipe."""
    (folder / "source").mkdir()
    words, model, batch = TASKS[task](folder / "source")
    text = f"""
data: {folder / "data"}
prepare: songrank data prepare something
model: {model}
batch: {batch}
warm_up: {STAGE}
fine_tuning: {STAGE}
loss: {{name: song, gamma: 0.3}}
evaluation: {{metrics: [ndcg@5, mrr]}}
losses:
  k-song: {{loss: {{k: 5}}}}
"""
    (folder / "recipe.yaml").write_text(text)
    return ["data", "prepare", *words, "-o", folder / "data", "-q"], folder / "recipe.yaml"
