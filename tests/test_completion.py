"""Shell completion: the words of the commands, at once, in real shells."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from unmask.cli import main
from unmask.cli.completion import SHELLS, cache_file, collect
from unmask.names import DISTRIBUTIONS
from unmask.words.schedules import BLIND_SIZES as ALL_SIZES

PROGRAM = Path(sys.executable).with_name("unmask")


def words(*line: str) -> list[str]:
    """What completes the last word of a line."""
    asked = {
        "_UNMASK_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("unmask", *line)),
        "COMP_CWORD": str(len(line)),
    }
    result = CliRunner().invoke(main, env=asked, prog_name="unmask")
    assert result.exit_code == 0
    return [answer.removeprefix("plain,") for answer in result.output.splitlines() if answer]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """A cache of the tests' own, the same for all of them: it is made once."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def test_the_words_are_kept_and_made_anew_when_the_program_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert words("plan", "--st") == ["--steps", "--stay"]
    kept = json.loads(cache_file().read_text(encoding="utf-8"))
    assert kept["commands"] == collect()
    kept["commands"]["plan"]["options"] = []
    cache_file().write_text(json.dumps(kept), encoding="utf-8")
    assert words("plan", "--st") == []  # what is kept is believed while the program is the same
    cache_file().write_text(json.dumps(kept | {"age": ["another", 0, 0]}), encoding="utf-8")
    assert words("plan", "--st") == ["--steps", "--stay"]
    cache_file().write_text("not ours", encoding="utf-8")
    assert words("plan", "--st") == ["--steps", "--stay"]


def test_a_cache_that_cannot_be_written_only_costs_time(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert words("plan", "--st") == ["--steps", "--stay"]


def test_commands_options_and_names_are_completed():
    assert words("ge") == ["generate"]
    assert words("") == list(main.lines)
    assert words("plan", "--st") == ["--steps", "--stay"]
    assert words("plan", "--size", "minimax-t") == ["minimax-tc"]
    assert words("expect", "--distribution", "") == list(DISTRIBUTIONS)
    assert words("generate", "--order", "c") == ["comb", "confidence", "comb-16"]
    assert words("generate", "--engine", "r") == ["ray"]
    assert words("reproduce", "fig") == ["figure1", "figure2", "figure3"]
    assert words("completion", "") == list(SHELLS)


def test_lists_are_completed_at_their_last_word_and_propose_nothing_twice():
    assert words("expect", "--size", "even,squ") == ["even,square-root"]
    assert words("expect", "--size", "even,") == [f"even,{name}" for name in ALL_SIZES if name != "even"]
    assert words("evaluate", "--order", "random,com") == ["random,comb", "random,comb-16"]


def test_files_are_left_to_the_shell():
    assert words("plan", "--curve", "lo") == ["file,lo"]
    assert words("generate", "--model", "my-") == ["file,my-"]
    assert words("generate", "--model", "bui") == ["builtin"]


def test_what_makes_no_sense_is_completed_by_nothing_and_no_error():
    assert words("nonsense", "--si") == []
    assert words("plan", "--length", "x", "--size", "opt") == ["optimal"]
    assert words("plan", "--length", "") == []


def test_an_answer_takes_less_than_half_a_second_and_imports_nothing_heavy():
    asked = {"_UNMASK_COMPLETE": "bash_complete", "COMP_WORDS": "unmask generate --order c", "COMP_CWORD": "3"}
    code = "import sys, unmask.cli as c\ntry: c.main()\nfinally: print(*sys.modules)"
    best = float("inf")
    for _ in range(5):  # the fastest: the tests share their cores
        begin = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True)
        best = min(best, time.perf_counter() - begin)
    answer = done.stdout.splitlines()
    assert answer[0] == "plain,comb"
    assert not {"numpy", "scipy", "numba", "torch", "rich"} & set(answer[-1].split())
    assert best < 0.5


def test_help_alone_imports_nothing_heavy():
    code = "import sys, unmask.cli as c\ntry: c.main(['--help'])\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "scipy", "numba", "torch", "rich"} & set(done.stdout.splitlines()[-1].split())


SCRIPTS = {
    "bash": """
source <("$1" completion bash)
compopt() { :; }
COMP_WORDS=(unmask expect --size even,cos) COMP_CWORD=3
_unmask_completion unmask
echo "${COMPREPLY[@]}"
""",
    "zsh": """
compdef() { : }
eval "$("$1" completion zsh)"
compadd() { print -r -- ${(P)@[-1]} }
words=(unmask expect --size even,cos) CURRENT=4
_unmask_completion
""",
    "fish": """
$argv[1] completion fish | source
complete -C 'unmask expect --size even,cos'
""",
}


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not installed here")
@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_works_in_its_shell(shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")
    script = tmp_path / "script"
    script.write_text(SCRIPTS[shell])
    there = os.environ | {"PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = subprocess.run([shell, script, PROGRAM], env=there, capture_output=True, text=True)
    assert done.stdout.split() == ["even,cosine"], done.stderr


def test_an_unknown_shell_is_refused():
    result = CliRunner().invoke(main, ["completion", "tcsh"])
    assert result.exit_code == 2
    assert "Completion does not support the shell 'tcsh'" in result.stderr
