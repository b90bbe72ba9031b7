"""Command lines at random: no traceback, no hang, no full memory, and a sentence that says what is wrong.

    FUZZ_COMMANDS=20000 python -m pytest tests/test_fuzz_commands.py

tries so many of them instead of a few hundred, and `tests/fuzz_commands.py` is the same as a script.
"""

import os

import pytest

import fuzz_commands

COUNT = int(os.environ.get("FUZZ_COMMANDS", "400"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="every line runs in a forked child")
def test_no_command_line_fails_without_a_sentence():
    pytest.importorskip("torch")
    found = fuzz_commands.findings(COUNT, SEED)
    shown = "\n".join(
        f"{each.kind} ({each.count}): {each.what}\n    {each.line}   [stdout: {each.mode}]" for each in found
    )
    assert not found, f"{len(found)} kinds of failure among {COUNT} command lines:\n{shown}"
