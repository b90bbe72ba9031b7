"""What a strict review and a stranger found in the house, each with the test that failed before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unmask import InputError, gauge, order, size
from unmask._atomic import locked
from unmask.names import SIZES, Need
from unmask.schedule import Schedule
from unmask.words.outputs import check_place
from unmask.words.schedules import described, measurable

COMMAND = [sys.executable, "-m", "unmask.cli"]
# Buffered, as outside of tests: a full or closed output then fails at the end.
PLAIN = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


@pytest.mark.parametrize("words", ["--help", "--version", "", "plan --help", "plan --length 9 --steps 2 --size tc"])
def test_a_reader_that_goes_away_is_no_mistake(words):
    with subprocess.Popen(
        [*COMMAND, *words.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=PLAIN
    ) as done:
        assert done.stdout is not None
        assert done.stderr is not None
        done.stdout.close()
        assert done.stderr.read() == b""
        assert done.wait() == 0


@pytest.mark.parametrize("words", ["-h", "--version", "-h more", "plan --help"])
def test_a_full_disk_is_one_sentence(words):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, *words.split()], stdout=full, stderr=subprocess.PIPE, env=PLAIN, text=True)
    assert (done.returncode, done.stderr) == (2, "Error: Cannot use the output: no space left on device.\n")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (
            "expect --distribution markov --alphabet 1000000000 --stay 0.9 --length 5 --size tc --steps 2",
            "--alphabet must be at most 4096, not 1000000000.",
        ),
        (
            "plan --gauge small.json --steps 2",
            "--gauge must not hold numbers as small as 4.94066e-324. Multiply all of them by the same large "
            "number. The schedule stays the same.",
        ),
        (
            "plan --gauge small.json --steps 1000000000",
            "--steps must be at most the length 4, not 1000000000. Every step reveals at least one token.",
        ),
        ("train --text text.txt --output new --layers 100000", "--layers must be at most 4096, not 100000."),
    ],
)
def test_a_limit_is_said_of_the_option(tmp_path, words, answer):
    (tmp_path / "small.json").write_text("[5e-324, 5e-324, 1]")
    (tmp_path / "text.txt").write_text("a text " * 1000)
    done = subprocess.run([*COMMAND, *words.split()], capture_output=True, env=PLAIN, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, f"Error: {answer}\n")


def test_a_closed_output_is_no_traceback():
    line = f"{sys.executable} -m unmask.cli plan --length 9 --steps 2 --size tc --json >&-"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_advice_loads_neither_torch_nor_numba():
    code = (
        "import sys; from unmask.cli import main\n"
        "try: main(['advise', '--target', '0.05', '--json'])\n"
        "finally: print([name for name in ('torch', 'numba', 'galois') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr.strip() == "[]"


def test_a_schedule_from_a_file_has_the_name_that_made_it():
    for name, entry in SIZES.items():
        if entry.needs is Need.STEPS:
            assert described(Schedule(entry.make(4), order.Random())).size == name
    own = size.Minimax(2, gauge.Vector([1.0, 2.0, 3.0]))
    assert described(Schedule(own, order.Random())).size == "minimax"


def test_what_a_user_wrote_is_not_taken_for_an_argument():
    error = InputError("curve", "hold numbers", detail="but line 3 of '{length}.csv' has 'x'", remedy="See {length}.")
    assert error.sentence(lambda name: f"--{name}") == (
        "--curve must hold numbers, but line 3 of '{length}.csv' has 'x'. See --length."
    )
    assert error.mentions == ["length"]


def test_whoever_comes_by_a_link_holds_the_same(tmp_path):
    (tmp_path / "real.json").write_text("")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    with (
        locked(tmp_path / "real.json", "output", "written"),
        pytest.raises(InputError, match="being written by another process"),
        locked(tmp_path / "link.json", "output", "written"),
    ):
        pass


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="this system has no such device")
def test_a_device_is_a_place_to_write_to():
    check_place("save", Path("/dev/null"))


def test_only_orders_that_can_be_measured_are_proposed():
    with pytest.raises(InputError, match="Choose from comb-16, dilated, halton, left-to-right, random, spread"):
        measurable("xyz")
    with pytest.raises(InputError, match="or a comb with a number such as comb-16, not 'confidence'"):
        measurable("confidence")


def test_a_run_that_breaks_its_weights_says_which_option_to_lower_and_leaves_nothing(tmp_path):
    (tmp_path / "text.txt").write_text("a text " * 1000)
    words = "train --text text.txt --output new --rate 1e15 --steps 1 --length 16 --width 8 --layers 2 --heads 2"
    done = subprocess.run([*COMMAND, *words.split()], capture_output=True, env=PLAIN, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "Error: The weights are not numbers, or too large to save, after step 1. Lower --rate. The last "
        "checkpoint, if there is one, is intact."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_what_only_hugging_face_has_is_said_of_the_option():
    done = subprocess.run([*COMMAND, "generate", "--allow-pickle"], capture_output=True, env=PLAIN, text=True)
    assert (done.returncode, done.stderr) == (
        2,
        "Error: --allow-pickle can be used only with a Hugging Face model. Leave out --allow-pickle.\n",
    )
