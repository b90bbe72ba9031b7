"""Calls of the Python core that a person might make, and some that nobody would: a result, or one sentence."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def hunted():
    """2,000 calls in a process of their own, whose children have 4 GB of memory and 30 s for a call."""
    line = [sys.executable, str(HERE / "fuzz_core.py"), "--calls", "2000", "--seed", "0", "--json"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_every_call_of_the_core_gives_a_sane_result_or_one_sentence(hunted):
    assert hunted["wrong"] == []
    assert sum(hunted["counts"].values()) == 2000


def test_the_calls_reach_every_public_name_of_the_core_and_many_are_accepted(hunted):
    """Everything that is public is called at least three times, and two calls of five are good ones."""
    assert min(hunted["calls"].values()) >= 3
    assert hunted["counts"]["accepted"] > 800
    assert hunted["counts"]["refused"] > 400
