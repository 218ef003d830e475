"""lambdarank of LightGBM on prepared lists, tuned on validation, evaluated on test, and written as runs.

    python benchmarks/lightgbm_lists.py mq2008/fold1 mq2008/fold2 … -o runs/lightgbm

Random configurations are trained with every seed, with early stopping by the mean of validation NDCG@5 and NDCG@10 of
songrank. Each fold uses the configuration with the highest mean over seeds on its own validation split. A common
choice for all folds would use test queries, since the test split of a LETOR fold is the validation split of another
(``--same`` makes this choice). The test split is read once, for the chosen configurations.
"""

import argparse
import importlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from songrank.data import ListSplit, open_dataset
from songrank.metrics import Evaluation, evaluate_lists
from songrank.training.run_directory import lists_fingerprint

WATCHED = ("ndcg@5", "ndcg@10")
METRICS = ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10")
CHOICES: dict[str, tuple[float, ...]] = {
    "num_leaves": (4, 8, 16, 31, 63),
    "learning_rate": (0.02, 0.03, 0.05, 0.1),
    "min_data_in_leaf": (5, 10, 20, 50, 100),
    "feature_fraction": (0.3, 0.5, 0.7, 1.0),
    "bagging_fraction": (0.5, 0.7, 0.9, 1.0),
    "lambda_l2": (0.0, 0.1, 1.0, 10.0),
    "lambdarank_truncation_level": (5, 10, 20, 30),
}


@dataclass(frozen=True)
class Fold:
    """A data set, with its lists in the format of LightGBM."""

    folder: Path
    parts: dict[str, ListSplit]

    @classmethod
    def open(cls, folder: Path) -> "Fold":
        dataset = open_dataset(folder)
        parts = {name: dataset[name] for name in ("train", "validation", "test")}
        if dataset.form != "list":
            sys.exit(f"{folder}: expected lists of documents with features (letor, mslr-web10k, …)")
        return cls(folder, {name: part for name, part in parts.items() if isinstance(part, ListSplit)})

    def evaluate(self, name: str, scores: Any, metrics: tuple[str, ...] = METRICS) -> Evaluation:
        part = self.parts[name]
        values = torch.from_numpy(
            np.array(scores, dtype=np.float64)
        )  # a copy, since arrays of LightGBM may be read-only
        return evaluate_lists(
            values, part.label, lengths=part.lengths, metrics=metrics, ties="pessimistic", empty="skip"
        )

    def watched(self, name: str, scores: Any) -> float:
        return float(np.mean(list(self.evaluate(name, scores, WATCHED).values.values())))


def draw(count: int, seed: int) -> list[dict[str, float]]:
    """Configurations, each value equally likely."""
    random = np.random.default_rng(seed)
    return [{name: random.choice(values).item() for name, values in CHOICES.items()} for _ in range(count)]


def train(lightgbm: Any, fold: Fold, config: dict[str, float], seed: int, options: argparse.Namespace) -> Any:
    """A booster at the best round on validation."""
    parameters = {
        "objective": "lambdarank",
        "metric": "None",
        "bagging_freq": 1,
        "max_bin": options.bins,
        "zero_as_missing": options.zero_as_missing,
        "seed": seed,
        "deterministic": True,
        "num_threads": options.threads,
        "verbose": -1,
        **config,
    }
    sets: list[Any] = []
    for name in ("train", "validation"):
        part = fold.parts[name]
        columns = {"label": part.label.numpy(), "group": part.lengths.numpy(), "params": parameters}
        first = sets[0] if sets else None
        sets.append(lightgbm.Dataset(part.features.float().numpy(), reference=first, **columns))
    return lightgbm.train(
        parameters,
        sets[0],
        options.rounds,
        valid_sets=sets[1:],
        feval=lambda scores, _: ("ndcg", fold.watched("validation", scores), True),
        callbacks=[lightgbm.early_stopping(options.patience, verbose=False)],
    )


def write_run(folder: Path, fold: Fold, name: str, seed: int, notes: dict[str, Any], scores: Any) -> Evaluation:
    """Write the configuration and the evaluation on test in the layout of a run."""
    found = fold.evaluate("test", scores)
    (folder / "evaluation").mkdir(parents=True, exist_ok=True)
    about: dict[str, Any] = {
        "model": {"name": name},
        "loss": {"name": "lambdarank"},
        "data": str(fold.folder),
        "seed": seed,
    }
    about["notes"] = notes  # differences between folds do not make a new method
    (folder / "config.yaml").write_text(json.dumps(about, indent=2) + "\n")  # JSON is YAML
    report = {
        "split": "test",
        "metrics": found.values,
        "queries": found.num_queries,
        "empty": found.num_empty,
        "ties": found.ties,
        "empty_policy": found.empty,
        "gain": found.gain,
        "candidates": "all",
        "lists_sha256": lists_fingerprint(open_dataset(fold.folder), "test"),
    }
    save_file(found.per_query, folder / "evaluation" / "test.safetensors")
    (folder / "evaluation" / "test.json").write_text(json.dumps(report, indent=2) + "\n")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folds", nargs="+", type=Path, help="directories of prepared data sets with lists")
    parser.add_argument("-o", "--output", type=Path, required=True, help="directory of the runs, fold1-seed0 and so on")
    parser.add_argument("--configurations", type=int, default=12)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--choosing", type=int, help="number of seeds for the choice of a configuration; all by default"
    )
    parser.add_argument("--ensemble", type=Path, help="directory of runs of the ensembles over seeds, fold1 and so on")
    parser.add_argument("--zero-as-missing", action="store_true", help="for data prepared with --missing zero")
    parser.add_argument("--same", action="store_true", help="one configuration for all folds")
    parser.add_argument("--rounds", type=int, default=1000, help="maximum number of trees")
    parser.add_argument("--patience", type=int, default=50, help="rounds without improvement before training stops")
    parser.add_argument("--bins", type=int, default=255, help="bins per feature")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    try:
        lightgbm: Any = importlib.import_module("lightgbm")
    except ImportError:
        sys.exit("LightGBM is not installed: pip install lightgbm")
    torch.set_num_threads(options.threads)
    folds = [Fold.open(folder) for folder in options.folds]
    configs = draw(options.configurations, seed=0)
    choosing = options.choosing or options.seeds
    value = np.zeros((len(folds), len(configs), choosing))
    boosters: dict[tuple[int, int, int], Any] = {}
    for at in np.ndindex(value.shape):
        fold, config, seed = at
        boosters[at] = train(lightgbm, folds[fold], configs[config], seed, options)
        value[at] = boosters[at].best_score["valid_0"]["ndcg"]
        if seed == choosing - 1:
            print(f"fold {fold + 1} {value[fold, config].mean():.4f} {json.dumps(configs[config])}", flush=True)
    mean = value.mean(-1)
    chosen = np.full(len(folds), mean.mean(0).argmax()) if options.same else mean.argmax(1)
    results = []
    for number, (fold_at, config_at) in enumerate(zip(folds, chosen.tolist(), strict=True)):
        print(f"fold {number + 1}: validation {mean[number, config_at]:.4f} {json.dumps(configs[config_at])}")
        scores = []
        for seed in range(options.seeds):
            folder = options.output / f"fold{number + 1}-seed{seed}"
            booster = boosters.get((number, config_at, seed)) or train(
                lightgbm, fold_at, configs[config_at], seed, options
            )
            scores.append(booster.predict(fold_at.parts["test"].features.float().numpy()))
            notes = {**configs[config_at], "rounds": booster.best_iteration}
            found = write_run(folder, fold_at, "lightgbm", seed, notes, scores[-1])
            results.append(list(found.values.values()))
        if options.ensemble:
            folder, notes = options.ensemble / f"fold{number + 1}", {"seeds": options.seeds}
            write_run(folder, fold_at, "lightgbm-ensemble", 0, notes, np.mean(scores, 0))
    print("  ".join(f"{name} {mean:.4f}" for name, mean in zip(METRICS, np.mean(results, 0), strict=True)))


if __name__ == "__main__":
    main()
