"""Draw README's figure from the table of docs/experiments/paper.md: ``python tools/docs/figure.py``."""

import io
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

ROOT = Path(__file__).parents[2]
SOURCE, FIGURE = ROOT / "docs/experiments/paper.md", ROOT / "docs/assets/relative-to-best.svg"
_OWN = {"SONG": ("tab:red", "o"), "K-SONG": ("tab:orange", "D")}
_OTHERS = ("tab:blue", "tab:green", "tab:purple", "tab:brown", "tab:pink", "tab:gray", "tab:olive")


def read_table(text: str) -> tuple[list[str], dict[str, list[float | None]]]:
    """The data sets, and NDCG on each by method, of the first table of the page."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]
    end = next(at for at, row in enumerate(cells) if at > 1 and row[1:2] == ["NDCG@10"])
    sets = cells[0][1:7]
    return sets, {row[0]: [float(cell) if cell else None for cell in row[1:7]] for row in cells[2:end]}


def draw(text: str) -> str:
    """An SVG: one line per data set, one mark per method, at its NDCG relative to the best method of the data set."""
    sets, found = read_table(text)
    best = [max(value for value in column if value is not None) for column in zip(*found.values(), strict=True)]
    with matplotlib.rc_context({"svg.hashsalt": "songrank", "svg.fonttype": "none", "font.size": 9}):
        figure, axes = pyplot.subplots(figsize=(7.6, 3.0), layout="constrained")
        others = iter(_OTHERS)
        for method, values in found.items():
            colour, mark = _OWN.get(method) or (next(others), ".")
            shown = [(value / top, at) for at, (value, top) in enumerate(zip(values, best, strict=True)) if value]
            size = 7 if method in _OWN else 9
            axes.plot(*zip(*shown, strict=True), mark, color=colour, markersize=size, label=method, alpha=0.9)
        axes.set(yticks=range(len(sets)), yticklabels=sets)
        axes.set_xlabel("test NDCG relative to the best method of the data set")
        axes.invert_yaxis()
        axes.grid(axis="x", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside right center", frameon=False)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None}, facecolor="white")
        pyplot.close(figure)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


if __name__ == "__main__":
    FIGURE.write_text(draw(SOURCE.read_text(encoding="utf-8")), encoding="utf-8")
