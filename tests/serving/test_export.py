"""A model in a file answers as the model does, for any sizes; and a file that would not is never there."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import songrank
from songrank import models
from songrank.core.errors import UserError
from songrank.models.registry import INPUTS, MODELS
from songrank.serving import export
from songrank.serving.export import SUFFIXES, ExportError, export_model

onnxruntime = pytest.importorskip("onnxruntime")

QUERIES, ITEMS, FEATURES, WORDS = 7, 23, 6, 30
SIZES = {"num_queries": QUERIES, "num_items": ITEMS, "num_labels": ITEMS, "num_features": FEATURES, "vocabulary": WORDS}
NEEDED = {
    "ids": "num_queries",
    "histories": "num_items",
    "documents": "num_features",
    "features": "num_features",
    "words": "vocabulary",
}
TASKS = {"ids": "recommendation", "histories": "recommendation", "documents": "search"}
TASKS |= {"features": "labelling", "words": "labelling"}
READS = {name: inputs for inputs, names in INPUTS.items() for name in names}
OPTIONS = {
    "neumf": {"dim": 5, "hidden": (4, 3)},
    "matrix-factorisation": {"dim": 5},
    "two-tower": {"dim": 5, "similarity": "cosine", "temperature": 0.2},
    "lightgcn": {"dim": 5, "layers": 1, "edges": torch.tensor([[0, 0, 3, 6, 2], [5, 22, 0, 5, 9]])},
    "sequence": {"dim": 8, "blocks": 2, "heads": 2, "length": 5, "dropout": 0.3},
    "history": {"dim": 8, "length": 5},
    "ease": {"length": 5},
    "context-aware": {"dim": 8, "blocks": 1, "heads": 2, "feed_forward": 12},
    "mlp": {"hidden": (8, 5), "dropout": 0.3},
    "label-mlp": {"hidden": (8,), "dropout": 0.3},
    "xml-cnn": {"dim": 6, "filters": 4, "windows": (1, 4), "pools": 3, "bottleneck": 9},
    "text-transformer": {"dim": 8, "blocks": 2, "heads": 2, "length": 5, "dropout": 0.3},
}


def make(name, **more):
    """A model whose scores are far apart, as after training, so that a wrong one is seen."""
    torch.manual_seed(3)
    fitting = {key: size for key, size in SIZES.items() if key in MODELS[name].__init__.__annotations__}
    model = models.create(name, **fitting, **OPTIONS[name], **more)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5)
    return model


def batch(inputs, rows, columns, *, times=False):
    """Inputs by name, not those that the export itself draws."""
    random = np.random.default_rng(rows * 100 + columns)
    if inputs == "ids":
        return {"query": random.integers(0, QUERIES, rows)}
    if inputs == "features":
        return {"features": random.normal(size=(rows, FEATURES)).astype(np.float32)}
    inside = np.arange(columns) < random.integers(0, columns + 1, (rows, 1))
    if inputs == "histories":
        history = {"history": np.where(inside, random.integers(0, ITEMS, (rows, columns)), -1)}
        return history | ({"time": random.integers(0, 10**9, (rows, columns)).cumsum(1)} if times else {})
    if inputs == "words":
        return {"tokens": random.integers(1, WORDS, (rows, columns)) * inside}
    return {"features": random.normal(size=(rows, columns, FEATURES)).astype(np.float32), "mask": inside}


def scored(model, given):
    """Scores one query at a time, by the call and not by ``score_all``."""
    model = copy.deepcopy(model).eval()
    parts = [torch.from_numpy(part) for part in given.values()]
    with torch.no_grad():
        if "mask" in given:
            rows = [model(*(part[row : row + 1] for part in parts)) for row in range(len(parts[0]))]
        else:
            every = torch.arange(ITEMS).unsqueeze(0)
            own = [[part[row : row + 1] for part in parts] for row in range(len(parts[0]))]
            rows = [model(some[0] if len(some) == 1 else tuple(some), every) for some in own]
    return torch.cat(rows).numpy()


def assert_close(scores, expected):
    if expected.size > 20:
        assert expected.std() > 0.1  # else anything would be close
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5 * max(1.0, np.abs(expected).max()))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The file of a model, written once."""
    written = {}

    def write(name):
        if name not in written:
            folder, needed = tmp_path_factory.mktemp(name) / "new", NEEDED[READS[name]]
            written[name] = export_model(make(name), READS[name], {needed: SIZES[needed]}, folder / "model.onnx")
        return written[name]

    return write


def session(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


BATCHES = [(1, 1), (1, 12), (2, 1), (6, 3), (9, 31)]


@pytest.mark.parametrize("name", MODELS)
def test_an_onnx_file_gives_the_scores_of_its_model_for_any_sizes(name, exported):
    model, inputs, path = make(name), READS[name], exported(name)
    assert os.listdir(path.parent) == ["model.onnx"]  # weights inside, nothing beside it
    loaded = session(path)
    for rows, columns in BATCHES:
        given = batch(inputs, rows, columns)
        assert [each.name for each in loaded.get_inputs()] == list(given)
        (scores,) = loaded.run(["scores"], given)
        assert scores.dtype == np.float32
        assert_close(scores, scored(model, given))
    about = loaded.get_modelmeta().custom_metadata_map
    assert about == {"songrank": songrank.__version__, "task": TASKS[inputs], "model": name}


@pytest.mark.parametrize("name", MODELS)
def test_a_torch_file_gives_the_scores_of_its_model_for_any_sizes(name, tmp_path, capfd):
    model, inputs = make(name), READS[name]
    path = export_model(model, inputs, SIZES, tmp_path / "model.pt2", format="torch")
    assert os.listdir(tmp_path) == ["model.pt2"]
    assert capfd.readouterr() == ("", "")
    about = {"songrank.json": ""}
    loaded = torch.export.load(path, extra_files=about).module()
    for rows, columns in BATCHES:
        given = batch(inputs, rows, columns)
        scores = loaded(*map(torch.from_numpy, given.values()))
        assert_close(scores.numpy(), scored(model, given))
    assert json.loads(about["songrank.json"])["model"] == name


@pytest.mark.parametrize("format", ["onnx", "torch"])
def test_ease_with_few_neighbours_is_exported(format, tmp_path):
    model = make("ease", neighbours=4)
    path = export_model(model, "histories", SIZES, tmp_path / f"model{SUFFIXES[format]}", format=format)
    given = batch("histories", 6, 3)
    if format == "onnx":
        (scores,) = session(path).run(["scores"], given)
    else:
        scores = torch.export.load(path).module()(torch.from_numpy(given["history"])).numpy()
    assert_close(scores, scored(model, given))


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("name", ["matrix-factorisation", "lightgcn", "sequence", "history"])
def test_cosines_are_exported(name, learned, tmp_path):
    model = make(name, scoring="cosine", temperature=0.1, learn_temperature=learned)
    loaded = session(export_model(model, READS[name], SIZES, tmp_path / "model.onnx"))
    for rows, columns in BATCHES:
        given = batch(READS[name], rows, columns)
        assert_close(loaded.run(["scores"], given)[0], scored(model, given))


@pytest.mark.parametrize("format", ["onnx", "torch"])
def test_a_blend_of_users_is_exported(format, tmp_path):
    """Members whose ``score_all`` works in tiles, and histories of several lengths."""
    parts = [make("neumf"), make("sequence"), make("history"), models.Ensemble([make("lightgcn"), make("lightgcn")])]
    model = models.Blend(parts, [0.4, 0.3, 0.2, 0.1])
    path = export_model(model, "users", SIZES, tmp_path / f"model.{'onnx' if format == 'onnx' else 'pt2'}", format)
    for rows, columns in BATCHES:
        given = {**batch("ids", rows, columns), **batch("histories", rows, columns)}
        if format == "onnx":
            loaded = session(path)
            assert [each.name for each in loaded.get_inputs()] == ["query", "history"]
            (scores,) = loaded.run(["scores"], given)
        else:
            scores = torch.export.load(path).module()(*map(torch.from_numpy, given.values())).numpy()
        with torch.no_grad():
            expected = copy.deepcopy(model).eval().score_all(models.UserInput(*map(torch.from_numpy, given.values())))
        assert_close(scores, expected.numpy())


def test_sizes_of_both_inputs_of_users_are_needed(tmp_path):
    model = models.Blend([make("matrix-factorisation"), make("history")], [0.5, 0.5])
    with pytest.raises(UserError, match="sizes has no num_items; required for Blend with inputs users"):
        export_model(model, "users", {"num_queries": QUERIES}, tmp_path / "model.onnx")


SEQUENCES = {
    "end": {"positions": "end"},
    "relative": {"positions": "none", "relative": True},
    "time": {"time_bias": True},
    "gates": {"gates": True, "embedding_norm": True},
    "all": {"positions": "end", "relative": True, "time_bias": True, "gates": True, "embedding_norm": True},
}


@pytest.mark.parametrize("format", ["onnx", "torch"])
@pytest.mark.parametrize("options", SEQUENCES)
def test_options_of_sequence_models_are_exported(options, format, tmp_path):
    model = make("sequence", **SEQUENCES[options])
    path = export_model(model, "histories", SIZES, tmp_path / f"model.{'onnx' if format == 'onnx' else 'pt2'}", format)
    for rows, columns in BATCHES:
        given = batch("histories", rows, columns, times=model.reads_times)
        if format == "onnx":
            found = session(path).run(["scores"], given)[0]
        else:
            found = torch.export.load(path).module()(*map(torch.from_numpy, given.values())).numpy()
        assert_close(found, scored(model, given))


def test_padding_may_hold_anything(exported):
    loaded = session(exported("context-aware"))
    given = batch("documents", 6, 9)
    clean = loaded.run(["scores"], given)[0]
    given["features"][~given["mask"]] = np.nan
    np.testing.assert_array_equal(loaded.run(["scores"], given)[0], clean)
    assert (clean[~given["mask"]] == 0).all()


def test_lists_without_padding_need_no_mask(tmp_path):
    model = make("context-aware")
    loaded = session(export_model(model, "documents", SIZES, tmp_path / "model.onnx", mask=False))
    for rows, columns in BATCHES:
        features = batch("documents", rows, columns)["features"]
        expected = scored(model, {"features": features, "mask": np.ones((rows, columns), dtype=bool)})
        assert_close(loaded.run(["scores"], {"features": features})[0], expected)


def test_dense_features_in_the_file_are_what_sparse_ones_are_in_training(exported):
    model, loaded = make("label-mlp"), session(exported("label-mlp"))
    features = batch("features", 4, 1)["features"]
    features[features < 0.3] = 0.0
    with torch.no_grad():
        expected = model.eval().score_all(torch.from_numpy(features).to_sparse_csr())
    assert_close(loaded.run(["scores"], {"features": features})[0], expected.numpy())


class OwnModel(nn.Module):
    """A user's own, with the calls of a catalogue model."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(QUERIES, ITEMS)
        self.odd = nn.Dropout(0.5)

    def score_all(self, query):
        return self.odd(self.table(query))


def test_a_model_of_ones_own_keeps_its_mode_type_and_gradients(tmp_path, capfd):
    model = OwnModel().to(torch.float64).train()
    model.odd.eval()  # half of it in each mode
    path = export_model(model, "ids", SIZES, tmp_path / "model.onnx")
    assert capfd.readouterr() == ("", "")
    assert model.training
    assert not model.odd.training
    assert model.table.weight.dtype == torch.float64
    assert model.table.weight.requires_grad
    assert session(path).get_modelmeta().custom_metadata_map["model"] == "OwnModel"


class CountsRows(OwnModel):
    def score_all(self, query):
        return torch.cat([self.table(row) for row in query.split(1)])  # as many steps as there are rows


class SaysOtherwise(OwnModel):
    def score_all(self, query):
        return super().score_all(query) if torch.compiler.is_compiling() else 1.001 * super().score_all(query)


@pytest.mark.parametrize("format", ["onnx", "torch"])
@pytest.mark.parametrize(
    ("kind", "message"),
    [(CountsRows, "CountsRows cannot be exported as {}"), (SaysOtherwise, "SaysOtherwise as {} differs by 0.00")],
)
def test_a_model_that_cannot_be_recorded_leaves_what_was_there(kind, message, format, tmp_path):
    path = tmp_path / f"model{export.SUFFIXES[format]}"
    path.write_text("what was there")
    with pytest.raises(ExportError, match=message.format(format)) as caught:
        export_model(kind(), "ids", SIZES, path, format=format)
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.exit_code == 1
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_text() == "what was there"


def test_a_file_that_is_written_wrongly_is_removed(tmp_path, monkeypatch):
    content = export._content
    monkeypatch.setattr(export, "_content", lambda *told: (whole := content(*told))[: len(whole) // 2])
    with pytest.raises(ExportError, match="matrix-factorisation was exported as onnx, but cannot be run"):
        export_model(make("matrix-factorisation"), "ids", SIZES, tmp_path / "model.onnx")
    assert os.listdir(tmp_path) == []


def test_a_disk_that_is_full_is_one_line(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"model.pt2: cannot be written \(No space left on device\)"):
        export_model(make("matrix-factorisation"), "ids", SIZES, tmp_path / "model.pt2", format="torch")
    assert os.listdir(tmp_path) == []


def test_a_place_that_is_no_folder_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        export_model(make("mlp"), "documents", SIZES, tmp_path / "file" / "model.pt2", format="torch")


@pytest.mark.parametrize(
    ("name", "inputs", "sizes", "file", "options", "message"),
    [
        ("mlp", "lists", SIZES, "m.onnx", {}, "inputs is 'lists'; expected one of ids, histories, documents"),
        ("mlp", "documents", SIZES, "m.onnx", {"format": "tflite"}, "format is 'tflite'; expected one of onnx, torch"),
        ("mlp", "documents", SIZES, "m.onnx", {"format": "torch"}, "expected suffix .pt2 for format torch"),
        ("neumf", "ids", {"num_items": 5}, "m.onnx", {}, "sizes has no num_queries"),
        ("neumf", "ids", SIZES, "m.onnx", {"mask": False}, "mask is False, but ids have no mask"),
        ("neumf", "ids", {"num_queries": 900}, "m.onnx", {}, "cannot be run with num_queries=900"),
        ("neumf", "documents", SIZES, "m.onnx", {}, "neumf with inputs documents cannot be run"),
        ("xml-cnn", "ids", SIZES, "m.onnx", {}, "xml-cnn with inputs ids cannot be run"),
        ("mlp", "features", SIZES, "m.onnx", {}, "mlp with inputs features cannot be run"),
        (
            "mlp",
            "documents",
            {"num_features": 9},
            "m.onnx",
            {},
            "cannot be run with num_features=9 .features has shape",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(name, inputs, sizes, file, options, message, tmp_path):
    with pytest.raises(UserError, match=message) as caught:
        export_model(make(name), inputs, sizes, tmp_path / file, **options)
    assert caught.value.exit_code == 2
    assert os.listdir(tmp_path) == []


def test_weights_that_are_no_numbers_are_refused(tmp_path):
    model = make("matrix-factorisation")
    nn.init.constant_(model.bias, torch.nan)
    with pytest.raises(UserError, match="scores of matrix-factorisation with inputs ids are NaN or infinite"):
        export_model(model, "ids", SIZES, tmp_path / "model.onnx")


def test_weights_beyond_what_onnx_holds_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(export, "ONNX_BYTES", 4 * (QUERIES + ITEMS) * 5)  # both tables, and not the biases
    with pytest.raises(UserError, match="weights of matrix-factorisation take .* GB.*; use format torch"):
        export_model(make("matrix-factorisation"), "ids", SIZES, tmp_path / "model.onnx")


def test_missing_packages_are_named_with_the_extra_that_has_them(tmp_path, monkeypatch):
    for package in ("onnx", "onnxscript"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=r"requires onnx, onnxscript; install with `pip install 'songrank\[export\]'`"):
        export_model(make("matrix-factorisation"), "ids", SIZES, tmp_path / "model.onnx")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_model_on_a_gpu_is_exported_from_there(tmp_path):
    model = make("neumf").cuda()
    path = export_model(model, "ids", SIZES, tmp_path / "model.pt2", format="torch")
    assert model.head.weight.is_cuda
    given = batch("ids", 5, 1)
    scores = torch.export.load(path).module()(torch.from_numpy(given["query"]))
    assert_close(scores.numpy(), scored(model.cpu(), given))


STRANGE = {
    "ids": [{"query": [-1]}, {"query": [QUERIES]}, {"query": [-(2**62)]}],
    "histories": [{"history": [[3, ITEMS]]}, {"history": [[3, -1, 4]]}],
    "words": [{"tokens": [[3, -1]]}, {"tokens": [[WORDS, 2]]}],
}


@pytest.mark.parametrize("format", SUFFIXES)
@pytest.mark.parametrize("name", ["neumf", "matrix-factorisation", "lightgcn", "sequence", "ease", "xml-cnn"])
def test_an_unknown_number_has_no_scores_and_does_not_change_others(name, format, tmp_path):
    model, inputs = make(name), READS[name]
    needed = NEEDED[inputs]
    path = export_model(model, inputs, {needed: SIZES[needed]}, tmp_path / f"model{SUFFIXES[format]}", format)
    run = session(path).run if format == "onnx" else None
    for strange in STRANGE[inputs]:
        ((word, bad),) = strange.items()
        width = np.array(bad).shape[1] if np.array(bad).ndim == 2 else None
        good = [2] if width is None else [[2] * width]
        given = {word: np.array([*good, *bad, *good], np.int64)}
        if run is None:
            scores = torch.export.load(path).module()(torch.from_numpy(given[word])).detach().numpy()
        else:
            (scores,) = run(["scores"], given)
        assert np.isnan(scores[1]).all()
        np.testing.assert_allclose(scores[0], scores[2], rtol=1e-5, atol=1e-6)
        assert_close(scores[:1], scored(model, {word: given[word][:1]}))


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Fitted and exported models of users and of histories, with text ids that are not in order of appearance."""
    place = tmp_path_factory.mktemp("shop")
    clicks = {"user": [f"u{n // 5}" for n in range(60)], "item": [f"sku-{(7 * n * n + n) % 17}" for n in range(60)]}
    fitted = {}
    for name, kept in (("matrix-factorisation", "users"), ("history", "histories")):
        small = {"warm_up.epochs": 1, "model.dim": 4}
        model = songrank.Recommender(model={"name": name}, epochs=1, options=small, verbose=0).fit(clicks)
        export.export_folder(model.folder_, place / f"{kept}.onnx")
        fitted[kept] = model
    return place, fitted


def serve(path, *words):
    example = Path(__file__).parents[2] / "examples" / "serve_onnx.py"
    code = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    code += "; assert not {'torch', 'songrank'} & set(sys.modules)"
    return subprocess.run([sys.executable, "-c", code, example, path, *words], capture_output=True, text=True)


def listed(table, user):
    rows = [at for at, asked in enumerate(table["user"]) if asked == user]
    return ", ".join(f"{table['item'][at]} ({table['score'][at]:.3f})" for at in rows)


def test_the_example_recommends_unseen_items_by_their_ids_without_torch_or_songrank(shop):
    place, fitted = shop
    done = serve(place / "users.onnx", "u11", "nobody", "-1", "u3")
    assert done.returncode == 0, done.stderr
    own = fitted["users"].recommend(["u11", "u3"], k=5)
    expected = [f"user u11: {listed(own, 'u11')}", "user nobody: unknown", "user -1: unknown"]
    assert done.stdout.splitlines() == [*expected, f"user u3: {listed(own, 'u3')}"]

    done = serve(place / "histories.onnx", "sku-3", "new", "sku-1")
    assert done.returncode == 0, done.stderr
    table = {"user": ["me", "me"], "item": ["sku-3", "sku-1"]}
    assert done.stdout == f"after this history: {listed(fitted['histories'].recommend_for(table, k=5), 'me')}\n"


def test_the_example_refuses_the_ids_of_another_model(shop, tmp_path):
    place, _ = shop
    (tmp_path / "model.onnx").write_bytes((place / "users.onnx").read_bytes() + b" ")
    (tmp_path / "model.ids.json").write_bytes((place / "users.ids.json").read_bytes())
    done = serve(tmp_path / "model.onnx", "u1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "model.ids.json: belongs to another model; export both again" in done.stderr
