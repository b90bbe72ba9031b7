"""SGLang as pip brings it, in a process of its own: it cannot be imported beside everything else."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from empties import ENGINES

HERE = Path(__file__).parent


@pytest.mark.skipif(not (ENGINES / "sglang").is_dir(), reason=f"SGLang is not in {ENGINES}: `make test` puts it there")
def test_sglang_s_own_classes_do_what_our_sampler_does(tmp_path):
    """Its plugin loader, registry, configuration and both loops, with empty modules for what is compiled for CUDA."""
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", str(HERE / "real_sglang.py")]
    # A home of its own: the engine keeps files there.
    environment = os.environ | {"HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, cwd=HERE.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    (passed,) = re.findall(r"^(\d+) passed", done.stdout, flags=re.MULTILINE)
    assert int(passed) > 40
    assert "skipped" not in done.stdout.splitlines()[-1]
