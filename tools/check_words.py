"""Check that texts use the field's words: ``python tools/check_words.py [PATH …]``.

Prints ``file:line: word: what to write`` for each word of the table below, and exits with 1 if there is one. Of a
Markdown, YAML or TOML file everything is read; of a notebook the sources of its cells; of a Python file the docstrings
of what is public, and string literals of more than one word (help texts, messages, titles). Comments are not read.
"""

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHECKED = ("docs", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "src", "benchmarks", "examples")
"""What is read without arguments."""
_NOT_READ = ("songrank.egg-info",)
_NOT_SHOWN = "# not shown"
"""Ends a line of Python whose literals nobody sees."""

_COUNTED = (
    r"(?:items?|pairs?|movies?|labels?|texts?|documents?|queries|words?|interactions?|rows?|floats?|numbers?|lines?"
    r"|values?|files?|lists?|runs?|steps?|users?|entries|looks?|cells?|bytes|ms|milliseconds|seconds|minutes|hours|once"
    r"|twice|trials?|settings?|seeds?|scores?|features?)"
)
_PER = (
    r"(?:user|query|step|epoch|second|minute|item|pair|text|label|list|core|run|file|line|process|batch|visit|method"
    r"|cell|row|split|loss|metric|seed|fold|document|worker|trial)"
)
WORDS: tuple[tuple[str, str], ...] = (
    # names
    (r"yard ?sticks?", "baseline"),
    (r"rehears(?:e|es|ed|als?|ing)", "backtest"),
    (r"recorded (?:gpu )?steps?", "captured CUDA graph"),
    (r"(?:the|going the|in the) plain way", "the eager fallback"),
    (r"rows? that waits?|rows wait", "deferred (lazy) row updates"),
    (r"moving mean", "exponential moving average (EMA)"),
    (r"mean of (?:the )?weights", "exponential moving average (EMA) of weights"),
    (r"\w+ (?:song|seeds|bce|lightgbm) as one(?: model)?|seeds as one", "ensemble of N seeds"),
    (r"less (?:k-)?song", "Δ vs SONG"),
    (r"(?:by more than|beyond|within) chance", "significant, or not significant, at 95 %"),
    (r"may be (?:chance|luck)", "is not significant"),
    (r"share of the best", "relative to best"),
    (r"films?", "movie, item"),
    (r"feeds", "data adapters, batch adapters"),
    (r"carr(?:y|ies|ied) over", "warm start"),
    (r"a start for", "default recipe for"),
    (r"best state|state by validation|last states?", "checkpoint"),
    (r"looks? (?:without|at validation)|between looks|so many looks", "evaluation"),
    # users and their history
    (r"strangers?", "new (cold-start) users"),
    (r"never seen(?: in training)?", "new (cold-start)"),
    (r"(?:has|had|have)(?: not)? met|not met|did not meet|met (?:yet|otherwise|in any split|each item)", "seen items"),
    (r"turn(?:s|ed)? to (?:next|last|in|what)|(?:who|user|users|he|they) turn(?:s|ed)? to", "interacted with"),
    (r"who (?:turned to|met) what", "interaction log"),
    (r"anybody|whoever|nobody|whom", "a user, users who, no user"),
    (r"(?:he|who) has not (?:rated|met)|his own|he has", "they, their, the user"),
    # what happens
    (
        r"(?:go|goes|going|gone|went) on with|(?:goes|gone|went|go|going) on (?:exactly|from)",
        "resume, resumed, continues",
    ),
    (r"(?:to )?the same bits", "bit-exact, bit-exactly"),
    (r"(?:is|was|are|were) no numbers?(?: any more)?|no number any more", "is NaN or infinite"),
    (r"memory (?:is|was) not enough", "out of memory"),
    (r"(?:made|make|makes|making) (?:anew|again)", "regenerated, reproduced"),
    (r"anew", "again, from the start"),
    (r"(?:is|are|was|were|be) refused|refus(?:es|ed by)", "raises, rejects, is rejected"),
    (r"is no (?:folder|directory)", "is not a directory"),
    (r"is no [\w-]+ of", "unknown … for …, is not a … of"),
    (r"is no (?:recipe|run|report|model|loss|yaml|json|csv|data set)", "is not a …"),
    (r"checksum is another|another checksum", "checksum mismatch"),
    (r"there is one already|is there already|that is there", "already exists; existing"),
    (r"(?:was|were|is|are) told", "reported, logged, given"),
    (r"(?:unless|if not|if nothing is) (?:told|said|you say) otherwise|if (?:nothing is|not) said", "by default"),
    (r"say (?:where|which|what|it once|how many)", "pass, name, give"),
    # turns of phrase
    (r"so many|as many at random", "N, the number of"),
    (r"what (?:it|they|that) (?:is|are) worth|is worth (?:much|more|nothing)", "score, effect"),
    (r"what (?:is|there is|are) there|what there is|where there (?:are|is) any", "name the thing"),
    (r"one that is none|which is none", "name the thing"),
    (r"thereof|therein|wherein|hitherto|as is meant", "plain modern English"),
    (r"some (?:\d[\d,.]*|dozens?|tens|hundreds|thousands?)", "about N"),
    (r"in the midst of", "during, within"),
    (r"design decision \d+", "the rule itself, or a page of the documentation"),
    (r"in (?:the )?words of|in the manners? of|\w+'s manners", "in the notation of, like, with the API of"),
    (r"for people|fit for people", "readable, human-readable"),
    (r"for who (?:has|have|comes)", "for users who"),
    (r"made[- ]up", "synthetic, generated"),
    (r"in a blink|never surprise", "a fact, for example a time"),
    # rates
    (rf"{_COUNTED} an? {_PER}(?!'| (?:and|or) )|one an? {_PER}", "… per …"),
)
"""Regular expressions, and what to write instead."""

_TABLE = tuple((re.compile(rf"(?<![\w-])(?:{words})(?![\w-])", re.IGNORECASE), advice) for words, advice in WORDS)
_TEXTS = (".md", ".yaml", ".yml", ".toml", ".txt")


def found_in(text: str) -> Iterator[tuple[int, str, str]]:
    r"""Line, word and advice for each word of the table; words may be divided by the end of a line.

    >>> list(found_in("Pass a model.\nIt is compared with a yardstick."))
    [(2, 'yardstick', 'baseline')]
    """
    flat = re.sub(r"\s", " ", re.sub(r"\n[ \t]*(?=\S)", lambda gap: " " + "\0" * (len(gap[0]) - 1), text))
    kept = [place for place, letter in enumerate(flat) if letter != "\0"]
    joined = "".join(flat[place] for place in kept)
    for pattern, advice in _TABLE:
        for match in pattern.finditer(joined):
            yield text.count("\n", 0, kept[match.start()]) + 1, match[0], advice


def texts_of(file: Path) -> Iterator[tuple[int, str]]:
    """The texts of a file that people see, each with the line that it begins on."""
    content = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        lines = content.splitlines()
        texts = _python_texts(ast.parse(content))
        yield from ((line, text) for line, text in texts if not lines[line - 1].endswith(_NOT_SHOWN))
    elif file.suffix == ".ipynb":
        for cell in json.loads(content)["cells"]:
            yield 1, "".join(cell["source"])
    else:
        yield 1, content


def _python_texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    docstrings = dict(_docstrings(tree, public=True))
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and docstrings.get(id(node), " " in node.value)
        ):
            yield node.lineno, node.value


def _docstrings(node: ast.AST, *, public: bool) -> Iterator[tuple[int, bool]]:
    """Each docstring, and whether it is one of something public."""
    body = getattr(node, "body", [])
    documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    if documented and body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        yield id(body[0].value), public
    for child in body if isinstance(body, list) else ():
        name = getattr(child, "name", "")
        yield from _docstrings(child, public=public and (not name.startswith("_") or name.endswith("__")))


def files_in(path: Path) -> list[Path]:
    """The files of a folder that are read, or the file itself."""
    if path.is_file():
        return [path]
    found = (file for file in path.rglob("*") if file.suffix in (*_TEXTS, ".py", ".ipynb") and file.is_file())
    return sorted(file for file in found if not set(_NOT_READ) & set(file.parts))


def main() -> None:
    """Read the command line, print what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("paths", nargs="*", type=Path, help=f"files and folders; by default {', '.join(CHECKED)}")
    paths = parser.parse_args().paths or [ROOT / name for name in CHECKED]
    wrong = 0
    for path in paths:
        if not path.exists():
            parser.error(f"{path} does not exist")
        for file in files_in(path):
            for first, text in texts_of(file):
                for line, word, advice in found_in(text):
                    print(f"{file}:{first + line - 1}: {word!r}: write {advice}")
                    wrong += 1
    if wrong:
        print(f"{wrong} words to replace; the table is in {Path(__file__).name}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
