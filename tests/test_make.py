"""What the Makefile does where something cannot be had."""

import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(("ci", "fails"), [("true", True), ("", False)])
def test_an_engine_that_cannot_be_installed_is_skipped_at_home_and_fails_where_all_must_be_tested(tmp_path, ci, fails):
    """The Makefile, with a Python that installs anything but the engine."""
    shutil.copy(Path(__file__).parent.parent / "Makefile", tmp_path)
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
