"""What the Makefile does where something cannot be had."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# A Python that is as old as one likes, makes no environment, and says what it is asked to do.
FAKE = """#!/bin/sh
[ "$1" = -c ] && exec {python} -c "import sys; sys.version_info = ({version}); $2"
echo "$*" >> asked
"""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


def fake(path, version):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FAKE.format(python=sys.executable, version=version))
    path.chmod(0o755)


def make(folder, *words):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    own = {name: value for name, value in os.environ.items() if "MAKE" not in name and name != "MFLAGS"}
    return subprocess.run(["make", *words], cwd=folder, env=own, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("target", ["demo", "site"])
def test_a_python_that_is_too_old_is_refused_before_an_environment_is_made(tmp_path, target):
    fake(tmp_path / "old", "3, 10")
    done = make(tmp_path, target, "PYTHON=./old")
    least = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    assert done.returncode != 0
    assert done.stderr.splitlines()[0] == (
        f"Python {least} or later is needed, but ./old is Python 3.10. "
        f"Name a later one, for example: make {target} PYTHON=python3.11"
    )
    assert done.stdout == ""
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize(("kept", "cleared"), [(None, True), ("3, 10", True), ("3, 11", False), ("3, 13", False)])
def test_only_an_environment_whose_python_is_too_old_is_made_from_nothing(tmp_path, kept, cleared):
    fake(tmp_path / "new", "3, 11")
    if kept is not None:
        fake(tmp_path / ".venv" / "bin" / "python", kept)
    make(tmp_path, ".venv/demo", "PYTHON=./new")
    assert (tmp_path / "asked").read_text().splitlines()[0] == f"-m venv {'--clear ' * cleared}.venv"


@pytest.mark.parametrize(("ci", "fails"), [("true", True), ("", False)])
def test_an_engine_that_cannot_be_installed_is_skipped_at_home_and_fails_where_all_must_be_tested(tmp_path, ci, fails):
    """The Makefile, with a Python that installs anything but the engine."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("pyproject.toml", "constraints.txt", ".ci/engines.txt", ".venv/demo", "bin/python"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('#!/bin/sh\ncase "$*" in *--target*) exit 1;; esac\n')
    (tmp_path / "bin" / "python").chmod(0o755)
    made = subprocess.run(
        ["make", "BIN=bin", f"CI={ci}", "--old-file=.venv/demo", ".venv/ready"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (made.returncode != 0) == fails
    assert (tmp_path / ".venv" / "ready").exists() != fails
    assert ("\nSGLang cannot be had here" in made.stdout) != fails
