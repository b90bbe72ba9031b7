"""How torch's threads wait: kindly to other programs, unless the user has said how."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

NAMES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


def waiting(code="", **chosen):
    """The variables after torch was imported through the library, or before by the code, with these set at first."""
    bare = {name: value for name, value in os.environ.items() if name not in NAMES}
    code = f"{code}\nimport os, unmask._torch\nprint(*(os.environ.get(name) for name in {NAMES}))"
    done = subprocess.run([sys.executable, "-c", code], env=bare | chosen, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_threads_sleep_while_they_wait():
    assert waiting() == ["PASSIVE", "1000", "None"]


@pytest.mark.parametrize("name", NAMES)
def test_what_the_user_has_set_is_left_alone(name):
    assert waiting(**{name: "7" if name != NAMES[0] else "ACTIVE"}).count("None") == 2


def test_nothing_is_set_too_late():
    """OpenMP has read its variables when torch is there: to set them would only tell those who look a falsehood."""
    assert waiting("import torch") == ["None"] * 3


def test_the_library_alone_sets_nothing():
    code = "import os, unmask, unmask.size, unmask.schedule; print('OMP_WAIT_POLICY' in os.environ)"
    bare = {name: value for name, value in os.environ.items() if name not in NAMES}
    done = subprocess.run([sys.executable, "-c", code], env=bare, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
