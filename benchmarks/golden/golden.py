"""Golden results: record the exact results of the library, and compare two versions.

    python golden.py record OLD --data DATA          # with the old code; writes OLD/golden.json and OLD/artefacts
    python golden.py record NEW --data DATA          # with the new code
    python golden.py compare OLD/golden.json NEW/golden.json
    python golden.py open OLD/artefacts opened.json  # with the new code: opens what the old code wrote
    python golden.py compare OLD/golden.json opened.json --subset

``DATA`` is a directory with the archives ml-100k.zip, ml-1m.zip, sequences.zip, mq2008.zip, mq2007-agg.zip,
lightgbm-rank.zip, mslr-web10k-sample.zip, eurlex-4k.zip, bibtex.zip and ir-benchmark.zip. Missing archives are skipped;
without ``--data``, all are skipped. Both versions must run on the same machine with the same packages. Only the command
line and the public API are used. Times, paths and versions are not recorded. Artefacts contain absolute paths to their
data sets, so do not move them.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", COLUMNS="160", TERM="dumb")

import argparse
import contextlib
import csv
import json
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from golden_api import ask_estimators, fit_estimators, record_api
from golden_cases import (
    COMMANDS,
    ERRORS,
    FAST,
    LOSS_OPTIONS,
    METRICS,
    MODELS,
    PAPER,
    PREPARED,
    REAL,
    RECIPE_KEYS,
    SAMPLE,
    SHORT,
    SMALL_PAPER,
    TIMES,
)
from golden_files import write_raw
from golden_values import Golden, array_digest, digest

import songrank


class Cases(Golden):
    """The recorded values."""

    def train(self, case: str, model: str, *changes: str, recipe: str = "", to: Path = Path("runs")) -> None:
        """A short run of a small model; invalid changes are recorded as errors."""
        data, usual, *small = MODELS[model]
        sample = SAMPLE if usual == "neumf" else []
        words = [*small, *SHORT, *sample] if recipe else [f"model={model}", *small, *SHORT, *FAST, *sample]
        words = [f"data=data/{data}", *words, *changes]
        if self.say(f"train/{case}", "train", recipe or usual, *words, "-q", "-o", to / case):
            self.run(f"train/{case}", to / case)

    # ---- records

    def prepare(self) -> None:
        write_raw(Path("raw"))
        cases = dict(PREPARED)
        for case, (kind, archive, *options) in REAL.items():
            if self.data and (self.data / archive.split(".zip")[0]).with_suffix(".zip").exists():
                cases[case] = [kind, str(self.data / archive), *options]
        for case, words in cases.items():
            if self.say(f"data/{case}", "data", "prepare", *words, "-o", Path("data") / case):
                self.dataset(f"data/{case}", Path("data") / case)

    def words(self) -> None:
        """Lists and help."""
        self.say("list/kinds", "data", "list")
        for kind in sorted({words[0] for words in PREPARED.values()}):
            self.say(f"list/{kind}", "data", "list", kind)
        for name in ("recipes", "paper", "--version"):
            self.say(f"list/{name}", name)
        for name in COMMANDS:
            self.say(f"help/{name}", name, "--help")

    def recipes(self) -> None:
        """All included recipes, with each loss for which they have settings."""
        names = [line.split()[0] for line in self.call("recipes")[1].splitlines()[1:] if line[0] != " "]
        for name in names:
            text = self.call("recipes", name)[1]
            self.put(f"recipe/{name}/text", digest(text))
            values = yaml.safe_load(text)
            model = values["model"]["name"]
            for loss in {values["loss"]: 0, **values.get("losses", {})}:
                own = [f"loss={loss}", *(["loss.k=5"] if loss.endswith("k-song") else [])]
                self.train(f"recipe/{name}/{loss}", model, *own, recipe=name)
        for name, model, data in (
            ("movielens-100k", "neumf", "data/real-ml-100k"),
            ("mq2008", "mlp", "data/real-mq2008"),
            ("labelling", "label-mlp", "data/real-bibtex"),
        ):
            if Path(data).exists():
                self.train(f"real/{name}", model, f"data={data}", "batch.queries=128", recipe=name)

    def known(self, section: str) -> list[str]:
        """Names of all losses or models, read from an error message."""
        told = self.call("train", "recommendation", f"{section}=zzz", "-o", self.scratch / "none")[2]
        return told.split("one of ")[1].strip().split(", ")

    def losses(self) -> None:
        for name in self.known("loss"):
            own = [f"loss={name}", *(["loss.k=5"] if name.endswith("k-song") else [])]
            for model in ("neumf", "mlp", "context-aware", "label-mlp", "sequence"):
                self.train(f"loss/{name}/{model}", model, *own)
            self.train(f"loss/{name}/labels-sampled", "label-mlp", *own, *SAMPLE)
            for option in LOSS_OPTIONS.get(name, []):
                self.train(f"loss/{name}/{option}", "neumf", *own, f"loss.{option}")

    def runs(self) -> None:
        """All models, all keys of a recipe, seeds, a stopped run, a study, and estimators."""
        for name in self.known("model"):
            self.train(f"model/{name}", name)
        self.train("model/mlp-table", "mlp", "data=data/table")
        for case, (model, *changes) in RECIPE_KEYS.items():
            self.train(f"key/{case}", model, *changes)
        for loss in ("song", "softmax"):
            for seed in (0, 1, 2):
                self.train(f"seeds/{loss}-{seed}", "neumf", f"loss={loss}", f"seed={seed}")
                self.train(f"list-seeds/{loss}-{seed}", "mlp", f"loss={loss}", f"seed={seed}")
        words = ["neumf", "data=data/clicks", *MODELS["neumf"][2:], *SHORT, *SAMPLE]
        for form in ("--json", "--speed=plain"):
            self.say(f"train/printed/{form}", "train", *words, form, "-o", self.scratch / f"printed{form}")
        self.stopped(*words, "warm_up.epochs=3", "fine_tuning.epochs=60", "fine_tuning.ema_decay=0.5")
        self.say("demo", "demo", "-o", "demo", "-q")
        for path in sorted(Path("demo").glob("*/config.yaml")):
            self.run(f"demo/{path.parent.name}", path.parent)
        words += ["--search", "loss.gamma=0.1..1.0", "--search", "fine_tuning.learning_rate=1e-3..1e-1:log"]
        Path("study.words").write_text(json.dumps(words))
        self.say("tune/first", "tune", *words, "--trials", 3, "--json", "-o", "study")
        self.put("tune/best.yaml", self.clean(Path("study/best.yaml").read_text()))
        for path in sorted(Path("study").glob("trial-*")):
            self.run(f"tune/{path.name}", path)
        fit_estimators(self)

    def stopped(self, *words: str) -> None:
        """A run that a signal stops after some epochs; its final result does not depend on when."""
        folder, done = Path("runs/stopped"), threading.Event()

        def stop() -> None:
            history = folder / "metrics.jsonl"
            while not done.wait(0.005):
                if history.exists() and history.read_bytes().count(b"\n") >= 5:
                    os.kill(os.getpid(), signal.SIGTERM)
                    return

        threading.Thread(target=stop).start()
        self.put("resume/stopped with", self.call("train", *words, "-o", folder)[0])
        done.set()

    def paper(self, folder: Path) -> None:
        for name in PAPER:
            code, _, err = self.call("paper", name, *SMALL_PAPER, "-o", folder)
            self.put(f"paper/{name}/exit", f"{code} {self.clean(err)}")
            for path in sorted((folder / name).glob("*.csv")):
                table = list(csv.reader(path.open(newline="")))
                kept = [at for at, column in enumerate(table[0]) if column not in TIMES]
                text = "\n".join(" | ".join(row[at] for at in kept) for row in table)
                self.put(f"paper/{name}/{path.name}", self.clean(text))

    # ---- outputs of artefacts, of this version or another

    def answers(self) -> None:
        for folder in sorted(Path("data").iterdir()):
            self.say(f"show/{folder.name}", "data", "show", folder)
        for name, (data, *_) in MODELS.items():
            self.answer(name, Path("runs/model") / name, data)
        self.answer("mlp-table", Path("runs/model/mlp-table"), "letor")
        out = self.scratch
        for kind in ("seeds", "list-seeds"):
            runs = Path("runs") / kind
            self.say(f"compare/{kind}/text", "compare", runs)
            self.say(f"compare/{kind}/json", "compare", runs, "--json", "--level", 0.9)
            self.say(
                f"compare/{kind}/markdown",
                "compare",
                runs,
                "--markdown",
                "--baseline",
                "softmax",
                "--metric",
                "ndcg@10",
            )
            self.say(f"compare/{kind}/validation", "compare", runs, "--split", "validation")
            for name, asked in (("one", (runs / "song-0",)), ("several", (runs, "--baseline", "softmax"))):
                self.say(f"report/{kind}/{name}", "report", *asked, "-o", out / f"{kind}-{name}.html")
                self.put(f"report/{kind}/{name}/page", self.clean((out / f"{kind}-{name}.html").read_text()))
            members = [runs / f"song-{seed}" for seed in (0, 1, 2)]
            if self.say(
                f"ensemble/{kind}", "ensemble", *members, "-o", out / f"ensemble-{kind}", "--json", "--device", "cpu"
            ):
                self.run(f"ensemble/{kind}", out / f"ensemble-{kind}")
                self.say(f"ensemble/{kind}/evaluate", "evaluate", out / f"ensemble-{kind}", "--json", *METRICS)
        baselines = [word for name in ("popularity", "ease", "ials") for word in ("--baseline-model", name)]
        self.say("compare/baseline-models", "compare", "runs/seeds", *baselines)
        self.say("compare/baseline-models-json", "compare", "runs/seeds", *baselines, "--json", "-q")
        self.say(
            "compare/losses", "compare", *(f"runs/loss/{name}/neumf" for name in ("song", "k-song", "bce", "listnet"))
        )
        for model in ("neumf", "mlp", "label-mlp", "sequence"):  # old data, new runs
            self.train(f"again/{model}", model, to=out / "runs")
        if Path("runs/stopped").exists():
            shutil.copytree("runs/stopped", out / "resumed")
            self.say("resume", "train", "--resume", out / "resumed", "-q")
            self.run("resume", out / "resumed")
        shutil.copytree("study", out / "study")
        searched = json.loads(Path("study.words").read_text())
        self.say("tune/more", "tune", *searched, "--trials", 5, "--json", "-o", out / "study")
        ask_estimators(self)
        for case, words in ERRORS.items():
            self.say(f"error/{case}", *(word.replace("OUT", str(out / case)) for word in words))

    def answer(self, name: str, run: Path, data: str) -> None:
        """All commands that read a run."""
        for split in ("validation", "test"):
            self.say(f"evaluate/{name}/{split}", "evaluate", run, "--split", split, "--json")
        for option in (
            "--ties average",
            "--ties stable",
            "--empty zero",
            "--empty one",
            "--gain linear",
            "--candidates 20",
        ):
            self.say(f"evaluate/{name}/{option}", "evaluate", run, *METRICS[:2], *option.split(), "--json")
        self.say(f"evaluate/{name}/text", "evaluate", run, *METRICS)
        asked: dict[str, list[Any]] = {}
        if data == "clicks":
            ways = {
                "all": "-k 5",
                "users": "raw/users.csv",
                "none": "raw/users.csv --fallback none",
                "lists": "--allow raw/allow.csv --deny raw/deny.txt --with-seen -k 4",
                "histories": "--histories raw/histories.csv -k 3",
            }
            asked = {way: ["recommend", run, *words.split()] for way, words in ways.items()}
        elif name == "mlp-table":
            asked = {"table": ["rank", run, "raw/table.csv"], "sorted": ["rank", run, "raw/table.parquet", "--sorted"]}
        elif data == "letor":
            asked = {
                "letor": ["rank", run, "raw/letor/test.txt"],
                "sorted": ["rank", run, "raw/letor/vali.txt", "--sorted"],
            }
        elif data == "xmc":
            asked = {"bags": ["label", run, "raw/xmc/test.txt", "-k", 3]}
        else:
            asked = {
                "json": ["label", run, "raw/texts/test.jsonl"],
                "lines": ["label", run, "raw/new.txt", "-k", 2],
                "table": ["label", run, "raw/new.csv", "--text-column", "body"],
            }
        for way, words in asked.items():
            for suffix in ("csv", "parquet"):
                path = self.scratch / f"{name}-{way}.{suffix}"
                if self.say(f"answer/{name}/{way}/{suffix}", *words, "-o", path):
                    self.file(f"answer/{name}/{way}/{suffix}/bytes", path)
        self.export(name, run)

    def export(self, name: str, run: Path) -> None:
        import onnxruntime  # type: ignore[import-untyped]

        torch_file, onnx_file = self.scratch / f"{name}.pt2", self.scratch / f"{name}.onnx"
        if self.say(f"export/{name}/onnx", "export", run, "-o", onnx_file, "-q"):
            session = onnxruntime.InferenceSession(str(onnx_file), providers=["CPUExecutionProvider"])
            given = {one.name: example(one.name, one.shape) for one in session.get_inputs()}
            self.put(f"export/{name}/onnx/inputs", {one.name: (one.type, one.shape) for one in session.get_inputs()})
            self.put(f"export/{name}/onnx/scores", array_digest(session.run(["scores"], given)[0]))
            if name in ("neumf", "mlp") and self.say(f"export/{name}/torch", "export", run, "-o", torch_file, "-q"):
                answer = torch.export.load(torch_file).module()(*map(torch.from_numpy, given.values()))
                self.put(f"export/{name}/torch/scores", array_digest(answer))


def example(name: str, shape: list[Any]) -> Any:
    """A fixed input of an exported model: three queries with five positions each."""
    sizes = [size if isinstance(size, int) else (3, 5)[at] for at, size in enumerate(shape)]
    generator = np.random.default_rng(7)
    if name == "features":
        return generator.normal(size=sizes).astype(np.float32)
    return np.ones(sizes, dtype=bool) if name == "mask" else generator.integers(1, 9, sizes)


# ---- the command


def write_values(golden: Golden, path: Path) -> None:
    (path.parent / "texts").mkdir(exist_ok=True)
    for key, text in golden.texts.items():  # for inspection of different digests
        (path.parent / "texts" / key).write_text(text)
    path.write_text(json.dumps(golden.values, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    print(f"{len(golden.values):,} values in {path}")


def record(output: Path, data: Path | None, parts: list[str]) -> None:
    output.mkdir(parents=True, exist_ok=True)
    root = output.resolve() / "artefacts"
    root.mkdir()  # never into the artefacts of another version
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(root):
        golden = Cases(root, Path(scratch).resolve(), data.resolve() if data else None)
        steps: dict[str, Callable[[], None]] = {
            "prepare": golden.prepare,
            "words": golden.words,
            "api": lambda: record_api(golden),
            "recipes": golden.recipes,
            "losses": golden.losses,
            "runs": golden.runs,
            "paper": lambda: golden.paper(Path("paper")),
            "answers": golden.answers,
        }
        for name, step in steps.items():
            if not parts or name in parts:
                began = time.perf_counter()
                step()
                print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    write_values(golden, output / "golden.json")


def open_artefacts(root: Path, output: Path) -> None:
    root, output = root.resolve(), output.resolve()
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(root):
        golden = Cases(root, Path(scratch).resolve())
        golden.answers()
        shutil.copytree("paper", golden.scratch / "paper")
        before = {path: path.stat().st_mtime_ns for path in (golden.scratch / "paper/cells").glob("*/result.json")}
        golden.paper(golden.scratch / "paper")
        after = {path: path.stat().st_mtime_ns for path in (golden.scratch / "paper/cells").glob("*/result.json")}
        print(f"{len(after.items() - before.items())} of {len(before)} cells of the paper were run again")
    write_values(golden, output)


def compare(first: Path, second: Path, subset: bool) -> int:
    one, other = json.loads(first.read_text()), json.loads(second.read_text())
    keys = sorted(other if subset else one.keys() | other.keys())
    wrong = [key for key in keys if one.get(key) != other.get(key)]
    for key in wrong:
        print(f"{key}\n  - {one.get(key, 'missing')}\n  + {other.get(key, 'missing')}")
    print(f"{len(wrong):,} of {len(keys):,} values differ")
    return int(bool(wrong))


def run_command() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    words = commands.add_parser("record", help="run everything, and write OUTPUT/golden.json")
    words.add_argument("output", type=Path)
    words.add_argument("--data", type=Path, help="directory with archives of real data sets")
    words.add_argument("--part", action="append", default=[], help="only this part; repeatable")
    words = commands.add_parser("open", help="open artefacts that another version wrote")
    words.add_argument("artefacts", type=Path)
    words.add_argument("output", type=Path, help="the JSON file to write")
    words = commands.add_parser("compare", help="print differences; exit code 1 if there are any")
    words.add_argument("first", type=Path)
    words.add_argument("second", type=Path)
    words.add_argument("--subset", action="store_true", help="only the keys of the second file")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.command == "compare":
        return compare(given.first, given.second, given.subset)
    print(f"songrank is {songrank.__file__}")
    if given.command == "record":
        record(given.output, given.data, given.part)
    else:
        open_artefacts(given.artefacts, given.output)
    return 0


if __name__ == "__main__":
    sys.exit(run_command())
