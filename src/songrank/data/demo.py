"""The data of ``songrank demo``: a synthetic product search with readable titles and grades from 0 to 4."""

import csv
from pathlib import Path

import numpy as np

COLOURS = ("black", "white", "red", "blue", "green", "grey", "yellow", "brown")
MATERIALS = ("oak", "steel", "cotton", "leather", "glass", "bamboo", "wool", "plastic")
_FIRST, _SECOND = "chair table lamp shelf sofa desk rug mirror", "clock bench stool cabinet basket curtain pillow vase"
KINDS = (*_FIRST.split(" "), *_SECOND.split(" "))
BRANDS = ("Alder", "Birke", "Corvo", "Dune", "Elva", "Fjord", "Gale", "Hazel")
FEATURES = ("colour_match", "material_match", "kind_match", "price", "rating", "reviews", "delivery_days", "age_days")
GRADED, NEW = "products.csv", "new-queries.csv"
_SHARES = (0.6, 0.82, 0.93, 0.975)  # of products with a grade of at most 0, 1, 2, 3


def write_shop(folder: Path, queries: int = 400, new: int = 3, seed: int = 0) -> None:
    """Write the graded products of ``queries`` queries, and those of ``new`` other queries without grades.

    Most products of the right kind are fair (grades 1 and 2), the cheaper the better. The best ones (3 and 4) are well
    reviewed, and there a high price is a good sign: a linear model cannot have both.
    """
    rng = np.random.default_rng(seed)
    rows: list[list[object]] = []
    values = []
    for wanted in rng.permutation(len(COLOURS) * len(MATERIALS) * len(KINDS))[: queries + new]:
        asked = (wanted % 8, wanted // 8 % 8, wanted // 64)
        query = " ".join(words[at] for words, at in zip((COLOURS, MATERIALS, KINDS), asked, strict=True))
        for _ in range(int(rng.integers(40, 90))):
            chances = zip((0.4, 0.4, 0.75), asked, (8, 8, 16), strict=True)
            colour, material, kind = (at if rng.random() < same else rng.integers(many) for same, at, many in chances)
            match = [int(colour == asked[0]), int(material == asked[1]), int(kind == asked[2])]
            price, rating = np.exp(rng.normal(4, 0.8)), np.clip(rng.normal(3.9, 0.65), 1, 5)
            reviews, days, age = int(rng.exponential(40)), int(rng.integers(1, 15)), int(rng.integers(900))
            costly = np.log(price) - 4
            value = match[2] * (2.2 + 0.5 * match[0] + 0.5 * match[1]) - 0.7 * costly - 0.06 * days - 0.3 * (age > 600)
            if match[2] and rating > 4.2 and reviews > 20:
                value += 1.5 + 1.6 * max(costly, -0.5) + 0.8 * (rating - 4.2)
            title = f"{BRANDS[rng.integers(8)]} {COLOURS[colour]} {MATERIALS[material]} {KINDS[kind]}"
            rows.append([query, f"P{len(rows):05}", title, *match, f"{price:.2f}", f"{rating:.1f}", reviews, days, age])
            values.append(value + rng.normal(0, 0.55))
    grades = np.searchsorted(np.quantile(values, _SHARES), values)
    last = list(dict.fromkeys(row[0] for row in rows))[queries:]
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / GRADED, "w", newline="") as graded, open(folder / NEW, "w", newline="") as ungraded:
        csv.writer(graded).writerow(("query", "product", "title", "grade", *FEATURES))
        csv.writer(ungraded).writerow(("query", "product", "title", *FEATURES))
        for row, grade in zip(rows, grades, strict=True):
            if row[0] in last:
                csv.writer(ungraded).writerow(row)
            else:
                csv.writer(graded).writerow([*row[:3], grade, *row[3:]])
