"""What several of these tests need: the site, built once."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The site, built away from the repository."""
    pytest.importorskip("zensical", reason='the site needs the extra "docs"')
    folder = tmp_path_factory.mktemp("site")
    for name in ("src", "experiments", ".ci", "CHANGELOG.md", "CONTRIBUTING.md"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copytree(DOCS, folder / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    program = Path(sys.executable).with_name("zensical")
    done = subprocess.run([program, "build", "--strict"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "griffe:" not in done.stderr
    return {path.relative_to(folder / "site"): path for path in (folder / "site").rglob("*") if path.is_file()}
