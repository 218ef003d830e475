"""The sdist and the wheel, installed into an environment that has only the dependencies."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def build(kind, source, output):
    done = subprocess.run(
        [sys.executable, "-c", BUILD, kind, str(output)], cwd=source, capture_output=True, text=True, check=True
    )
    return output / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("dist")
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    if not files:
        pytest.skip("not a git checkout: the sdist would hold files that are not committed")
    source = folder / "source"
    for name in filter(None, files.split("\0")):
        if (ROOT / name).is_file() and name.split("/")[0] in ("src", "pyproject.toml", "README.md", "LICENSE"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    sdist = build("build_sdist", source, folder)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    return build("build_wheel", unpacked, folder)


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """An environment with the wheel alone, beside the dependencies of this one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    here = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "dependencies.pth").write_text("\n".join([*here, *_inherited(here)]) + "\n")
    return folder


def _inherited(here):
    """Folders that path files of this environment add, except those of this checkout."""
    for place in here:
        for file in Path(place).glob("*.pth"):
            lines = file.read_text().splitlines()
            yield from (line for line in lines if Path(line).is_dir() and not Path(line).is_relative_to(ROOT))


def run(environment, *words, cwd):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    program = "import sys; from songrank_command import main; sys.exit(main())"
    command = [environment / "bin" / "python", "-c", program, *words]
    return subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, check=False)


def test_the_wheel_holds_the_packages_and_their_data(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for name in (
        "songrank/py.typed",
        "songrank/training/config/recipes/demo.yaml",
        "songrank/analysis/report/page.css",
    ):
        assert name in names
    assert any(name.endswith("entry_points.txt") for name in names)
    assert not [name for name in names if name.startswith(("tests", "docs", "benchmarks"))]


@pytest.mark.skipif(os.name == "nt", reason="environments have another layout on Windows")
def test_the_demo_runs_from_the_wheel(environment, tmp_path):
    where = "import songrank, sys; print(songrank.__file__, songrank.__version__)"
    found = subprocess.run([environment / "bin" / "python", "-c", where], capture_output=True, text=True, cwd=tmp_path)
    assert str(environment) in found.stdout, found.stderr
    done = run(environment, "demo", "-o", "demo", "-q", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Next, with a table of your own" in done.stdout
    assert (tmp_path / "demo" / "report.html").is_file()
    assert "synthetic" in run(environment, "data", "list", cwd=tmp_path).stdout
