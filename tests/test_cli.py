"""The command line: what it prints, what it refuses and how, and that it never leaves half a file."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from unmask import __version__, bounds, evaluate, gauge, names, size
from unmask.cli import main
from unmask.distribution import ReedSolomon
from unmask.names import DISTRIBUTIONS
from unmask.words.outputs import staged
from unmask.words.pictures import picture
from unmask.words.schedules import FREE_SIZES as SIZES
from unmask.words.sentences import abbreviated, number

CODE = "--distribution reed-solomon --length 2000 --dimension 1995 --alphabet 2048"
SMALL = "--distribution reed-solomon --length 16 --dimension 12 --alphabet 16"
COMMANDS = ("demo", "plan", "expect", "steps", "reproduce")


def run(line: str, *more: str) -> Result:
    return CliRunner().invoke(main, [*line.split(), *more])


def answer(line: str, *more: str) -> dict:
    """The JSON object that a command prints, strictly parsed: NaN and Infinity are errors, and so is stderr."""
    result = run(line, *more, "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""

    def refuse(word: str):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(result.stdout, parse_constant=refuse)


def complaint(line: str, *more: str) -> str:
    """The one sentence with which a command refuses."""
    result = run(line, *more)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("Error: ")
    return result.stderr.removeprefix("Error: ").strip()


# The group


def test_alone_it_prints_an_overview_that_names_every_command():
    result = run("")
    assert result.exit_code == 0
    assert all(f"\n  {command} " in result.stdout for command in main.lines)
    assert result.stdout.count("\n  unmask ") == 3
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_every_command_is_listed_once():
    listed = [name for names in main.titles.values() for name in names]
    assert sorted(listed) == sorted(main.lines)
    assert all(f"\n  {name} " in run("--help").stdout for name in listed)


def test_it_knows_its_version():
    assert run("--version").stdout.strip().endswith(__version__)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_examples(command):
    result = run(f"{command} --help")
    assert result.exit_code == 0
    assert "Examples:" in result.stdout
    assert f"\n    unmask {command}" in result.stdout
    assert "--json" in result.stdout


@pytest.mark.parametrize("width", [60, 80])
def test_no_cell_of_a_table_is_cut_on_a_narrow_terminal(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    line = "expect --distribution markov --length 64 --alphabet 2 --stay 0.9 --size even,minimax-min --steps 8"
    text = run(f"{line} --draws 20").stdout
    assert "…" not in text
    assert "minimax-min" in text
    assert "* smallest" in text


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_line_of_help_ends_inside_a_word_with_a_hyphen(monkeypatch, width):
    """It could be an option that a reader copies."""
    monkeypatch.setenv("COLUMNS", str(width))
    for command in ("", *main.summaries):
        lines = run(f"{command} --help").stdout.splitlines()
        assert [line for line in lines if re.search(r"\w-$", line)] == []
        assert "\N{NON-BREAKING HYPHEN}" not in "".join(lines)


def test_the_installed_program_runs_and_imports_nothing_heavy_for_its_version():
    code = "import sys; from unmask.cli import main; main(['--version'])"
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True)
    assert __version__ in done.stdout
    assert not any(name in done.stderr for name in ("numpy", "scipy", "torch", "rich"))


@pytest.mark.parametrize("module", ["unmask", "unmask.cli"])
def test_the_module_runs_as_a_program(module):
    command = [sys.executable, "-m", module, "plan", "--length", "8", "--steps", "9", "--size", "even"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: --steps must be at most the length 8, not 9. Every step reveals at least one token.\n"
    )


def test_an_unknown_command_gets_a_suggestion():
    assert complaint("pln") == "There is no command 'pln'. Did you mean 'plan'?"
    assert complaint("help") == (
        "There is no command 'help'. Run `unmask --help`, or `unmask COMMAND --help` for one command."
    )


def test_what_was_probably_meant_does_not_depend_on_capitals_and_is_not_guessed_from_one_letter():
    assert complaint("plan --size Minimax-TC") == "--size: no such size 'Minimax-TC'. Did you mean 'minimax-tc'?"
    assert complaint("generate -n 3") == "There is no option '-n'. See --help."
    assert complaint("generate --cuont 3") == "There is no option '--cuont'. Did you mean '--count'?"


def test_a_word_that_is_no_option_is_refused_and_a_prompt_is_told_its_option():
    assert complaint("plan 16") == "Got unexpected extra argument (16)."
    assert complaint("generate", "the ____ of") == (
        "Got unexpected extra argument (the ____ of). To give a prompt, write --prompt before it, and put it in quotes."
    )
    assert complaint("generate the ____ of").startswith("Got unexpected extra arguments (the ____ of). To give a ")


def test_an_unknown_option_and_a_missing_one_are_refused():
    assert "--lenght" in complaint("plan --lenght 8")
    assert complaint("plan --length 8 --steps 2") == "--size must be given. For example: --size minimax-min."


def test_the_traceback_is_there_when_asked_for():
    result = run("--traceback plan --length 4 --steps 5 --size even")
    assert isinstance(result.exception, ValueError)


def test_numbers_beyond_all_memory_are_refused():
    assert "--length must fit into memory" in complaint(f"plan --length {10**14} --steps 2 --size tc")
    assert complaint(f"plan --length {10**30} --steps 2 --size tc")


# plan


@pytest.mark.parametrize("name", SIZES)
def test_a_plan_obeys_the_laws_of_sizes(name):
    record = answer(f"plan --length 60 --steps 12 --size {name}")
    assert list(record)[:7] == ["length", "steps", "size", "mean_sizes", "overhang", "guarantee", "sizes"]
    assert (record["length"], record["steps"], record["size"]) == (60, 12, name)
    assert len(record["mean_sizes"]) == len(record["sizes"]) == 12
    assert len(record["overhang"]) == 59
    assert sum(record["mean_sizes"]) == pytest.approx(60, rel=1e-12)
    assert sum(record["sizes"]) == 60
    gauges = {"tc": gauge.tc, "dtc": gauge.dtc, "min": gauge.both, "sum": gauge.total}
    for key, make in gauges.items():
        assert record["guarantee"][key] == pytest.approx(max(np.array(record["overhang"]) / make(60)), rel=1e-12)


def test_the_guarantees_of_the_papers_schemes_are_their_coefficients():
    tc, dtc = (answer(f"plan --length 2000 --steps 100 --size {name}") for name in ("tc", "dtc"))
    assert tc["guarantee"]["tc"] == pytest.approx(tc["coefficient"], rel=1e-12)
    assert tc["coefficient"] == pytest.approx(0.04302, abs=5e-6)
    assert dtc["guarantee"]["dtc"] == pytest.approx(dtc["coefficient"], rel=1e-12)
    assert dtc["coefficient"] == pytest.approx(0.04701, abs=5e-6)
    assert (tc["theorem"], dtc["theorem"]) == (bounds.tc_factor(2000, 100), bounds.dtc_factor(2000, 100))
    assert tc["coefficient"] <= tc["theorem"]
    assert dtc["coefficient"] <= dtc["theorem"]


def test_a_theorem_that_does_not_hold_is_null_and_not_a_number():
    assert answer("plan --length 2000 --steps 5 --size dtc")["theorem"] is None
    assert answer("plan --length 2000 --steps 1 --size tc")["theorem"] is None
    assert "does not hold" in run("plan --length 2000 --steps 5 --size dtc").stdout


def test_the_seed_decides_the_draw():
    first, again, other = (answer(f"plan --length 300 --steps 40 --size tc --seed {seed}") for seed in (7, 7, 8))
    assert first == again
    assert first["sizes"] != other["sizes"]
    assert first["mean_sizes"] == other["mean_sizes"]


@pytest.mark.parametrize("name", SIZES)
def test_the_text_of_a_plan_fits_a_narrow_terminal(name):
    result = run(f"plan --length 2000 --steps 100 --size {name}")
    assert result.exit_code == 0
    assert "█" in result.stdout
    assert "× TC" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_the_shortest_plan_is_possible():
    assert answer("plan --length 1 --steps 1 --size tc")["guarantee"] == {"tc": 0, "dtc": 0, "min": 0, "sum": 0}
    assert run("plan --length 1 --steps 1 --size even").exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tc", "dtc"])
def test_a_million_tokens_are_planned(name):
    record = answer(f"plan --length 1000000 --steps 100000 --size {name}")
    assert sum(record["mean_sizes"]) == pytest.approx(1e6, rel=1e-9)
    assert sum(record["sizes"]) == 10**6


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--length 4 --steps 5 --size tc", "--steps must be at most the length 4, not 5."),
        ("--length 4 --steps 0 --size tc", "--steps must be at least 1, not 0."),
        ("--length 4 --steps -3 --size even", "--steps must be at least 1, not -3."),
        ("--length 0 --steps 1 --size even", "--length must be at least 1, not 0."),
        ("--length 4 --steps 2.5 --size tc", "--steps must be an integer, not '2.5'."),
        ("--length many --steps 2 --size tc", "--length must be an integer, not 'many'."),
        ("--length 4 --steps 2 --size evn", "--size: no such size 'evn'. Did you mean 'even'?"),
        ("--length 4 --steps 2 --size tc --seed -1", "--seed must be at least 0, not -1."),
    ],
)
def test_a_bad_plan_is_refused_in_a_sentence(line, sentence):
    assert complaint(f"plan {line}").startswith(sentence)
    assert complaint(f"plan {line} --json").startswith(sentence)


# expect


def test_expect_gives_the_exact_values_in_the_order_asked_for():
    record = answer(f"expect {CODE} --size tc,even --steps 50,500")
    curve = ReedSolomon(2000, 1995, 2048).curve()
    rows = record["rows"]
    assert [(row["size"], row["steps"]) for row in rows] == [("tc", 50), ("tc", 500), ("even", 50), ("even", 500)]
    assert [round(row["expected_kl"], 3) for row in rows[:2]] == [3.677, 0.177]
    for row in rows:
        assert set(row) == {"size", "steps", "expected_kl", "tc", "dtc"}
        assert row["expected_kl"] == evaluate.expected_kl(names.SIZES[row["size"]].make(row["steps"]), curve)
        assert (row["tc"], row["dtc"]) == (curve.total_correlation, curve.dual_total_correlation)
    assert record["distribution"]["name"] == "reed-solomon"
    assert record["distribution"]["dimension"] == 1995


def test_expect_with_draws_adds_estimates_that_agree():
    """Each of the three estimates is off by 4.5 standard errors with probability below 1e-5; the seed is fixed."""
    rows = answer(f"expect {SMALL} --size tc,dtc,log-linear --steps 4 --draws 4000 --seed 3")["rows"]
    for row in rows:
        assert abs(row["estimate"] - row["expected_kl"]) < 4.5 * row["standard_error"]
    assert rows == answer(f"expect {SMALL} --size tc,dtc,log-linear --steps 4 --draws 4000 --seed 3")["rows"]


OPTIONS = {
    "reed-solomon": "--dimension 5 --alphabet 16",
    "parity": "",
    "linear": "--dimension 5 --alphabet 2",
    "markov": "--alphabet 3 --stay 0.8",
    "mixture": "--bias 0.1",
    "latent-parity": "",
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_every_distribution_can_be_asked_for(name):
    line = f"expect --distribution {name} --length 12 {OPTIONS[name]} --size even,tc,dtc --steps 1,4,12"
    record = answer(line)
    for row in record["rows"]:
        if row["steps"] == 1:
            assert row["expected_kl"] == pytest.approx(row["tc"])
        if row["steps"] == 12:
            assert row["expected_kl"] == pytest.approx(0, abs=1e-12)
    text = run(line)
    assert text.exit_code == 0
    assert max(map(len, text.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("reed-solomon --length 8", "Distribution 'reed-solomon' needs --dimension and --alphabet as well."),
        ("markov --length 8 --alphabet 2", "Distribution 'markov' needs --stay as well."),
        ("parity --length 8 --dimension 3", "Distribution 'parity' does not take --dimension. Leave out --dimension."),
        ("markow --length 8", "--distribution: no such distribution 'markow'. Did you mean 'markov'?"),
        (
            "reed-solomon --length 8 --dimension 9 --alphabet 8",
            "--dimension must be at most the length 8, not 9.",
        ),
        ("reed-solomon --length 8 --dimension 2 --alphabet 12", "--alphabet must be a prime power, not 12."),
        (
            "reed-solomon --length 8 --dimension 2 --alphabet 7",
            "--length must be at most the alphabet size 7, not 8.",
        ),
        ("mixture --length 8 --bias 1.5", "--bias must be between 0 and 1, not 1.5."),
        ("mixture --length 8 --bias nan", "--bias must be finite, not nan."),
        ("markov --length 8 --alphabet 2 --stay much", "--stay must be a number, not 'much'."),
        ("linear --length 500 --dimension 250 --alphabet 2", "The exact curve needs a length of at most"),
    ],
)
def test_a_bad_distribution_is_refused_in_a_sentence(line, sentence):
    assert complaint(f"expect --distribution {line} --size tc --steps 4").startswith(sentence)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--size tc --steps 4,17", "--steps must be at most the length 16, not 17."),
        ("--size tc --steps 4,x", "--steps must be an integer, not 'x'."),
        ("--size tc --steps 4,,5", "--steps must be a list with an item before and after every comma, not '4,,5'."),
        ("--size tc,cosin --steps 4", "--size: no such size 'cosin'. Did you mean 'cosine'?"),
        ("--size tc --steps 4 --draws 1", "--draws must be at least 2, not 1."),
        ("--size tc", "Give exactly one of --steps and --target."),
        ("--size tc --steps 4 --target 1", "Give exactly one of --steps and --target."),
        (
            "--size tc --target 1 --draws 9",
            "--draws cannot be used with --target. Leave out --draws, or give --steps instead of --target.",
        ),
    ],
)
def test_a_bad_list_is_refused_in_a_sentence(line, sentence):
    assert complaint(f"expect {SMALL} {line}").startswith(sentence)


# steps


def test_steps_from_a_total_correlation_are_ordered_and_exact():
    record = answer("steps --length 2000 --tc 38.1231 --target 0.1")
    row, best = record["guaranteed"]
    assert (row["size"], row["exact"]) == ("tc", 698)
    assert row["exact"] <= row["theorem"] <= row["simplified"]
    assert row["theorem"] == bounds.steps_for_tc(2000, 38.1231, 0.1)
    assert record["measured"] == []
    assert best == {"size": "minimax-tc", "theorem": None, "simplified": None, "exact": 481}
    assert (
        38.1231 * size.Minimax(481, gauge.tc).factor(2000) <= 0.1 < 38.1231 * size.Minimax(480, gauge.tc).factor(2000)
    )
    assert "'minimax-tc' with 481 steps" in record["recommendation"]


def test_steps_with_both_measures_recommend_the_better_scheme():
    record = answer("steps --length 500 --tc 300 --dtc 5 --target 0.5")
    names = ["tc", "dtc", "minimax-tc", "minimax-dtc", "minimax-min", "minimax-sum"]
    assert [row["size"] for row in record["guaranteed"]] == names
    exact = {row["size"]: row["exact"] for row in record["guaranteed"]}
    assert exact["minimax-tc"] <= exact["tc"]
    assert exact["minimax-dtc"] <= exact["dtc"]
    assert record["recommendation"].startswith("Take 'minimax-dtc' with")


def test_steps_show_without_being_asked_that_minimax_and_optimal_sizes_need_fewer():
    record = answer("steps --distribution markov --length 64 --alphabet 2 --stay 0.8 --target 0.5")
    count = {row["size"]: row["steps"] for row in record["measured"]}
    assert count["minimax-tc"] < count["tc"]
    assert count["minimax-dtc"] < count["dtc"]
    assert count["optimal"] == min(count.values())
    assert "'optimal' needs" in record["recommendation"]


def test_steps_on_a_distribution_are_the_fewest():
    record = answer(
        "steps --distribution markov --length 64 --alphabet 2 --stay 0.8 --target 0.5 --size tc,even,offset"
    )
    curve = DISTRIBUTIONS["markov"].build(length=64, alphabet=2, stay=0.8).curve()
    assert record["tc"] == curve.total_correlation
    for row in record["measured"]:
        family = names.SIZES[row["size"]].make
        assert row["expected_kl"] == evaluate.expected_kl(family(row["steps"]), curve) <= 0.5
        assert evaluate.expected_kl(family(row["steps"] - 1), curve) > 0.5
    assert [row["size"] for row in record["measured"]] == ["tc", "even", "offset"]


def test_steps_say_so_when_only_one_token_at_a_time_will_do():
    assert "one token at a time" in answer("steps --length 50 --tc 100 --target 1e-9")["recommendation"]


def test_the_text_of_steps_fits_a_narrow_terminal():
    for line in (
        "--tc 38 --dtc 12",
        "--distribution latent-parity",
        "--distribution mixture --bias 0.05 --size even,tc,optimal,universal",
    ):
        result = run(f"steps --length 100 --target 0.5 {line}")
        assert result.exit_code == 0
        assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "--target 0.1",
            "Say what you know about the data: --tc, --dtc, --distribution with its options, or --curve.",
        ),
        (
            "--target 0.1 --tc 3 --distribution parity",
            "--tc and --dtc are computed from --distribution. Leave them out.",
        ),
        ("--target 0.1 --tc 3 --stay 0.5", "--stay needs --distribution. Give --distribution, or leave out --stay."),
        ("--target -1 --tc 3", "--target must be at least 0, not -1."),
        ("--target 0.1 --tc -3", "--tc must be at least 0, not -3."),
        ("--target 0.1 --dtc inf", "--dtc must be finite, not inf."),
        ("--target soon --tc 3", "--target must be a number, not 'soon'."),
    ],
)
def test_a_bad_target_is_refused_in_a_sentence(line, sentence):
    assert complaint(f"steps --length 100 {line}").startswith(sentence)


# reproduce


def test_reproduce_writes_nine_files_whose_estimates_agree_with_the_exact_values(tmp_path):
    """The seed is fixed: one seed in ten passes 4.5 somewhere, as sizes of nearly always one are skewed."""
    folder = tmp_path / "new" / "figures"
    record = answer("reproduce --draws 3000 --output", str(folder))
    names = {f"figure{number}.{suffix}" for number in (1, 2, 3) for suffix in ("png", "svg", "csv")}
    assert {file.name for file in folder.iterdir()} == names
    assert {Path(file).name for row in record["figures"] for file in row["files"]} == names
    assert [row["points"] for row in record["figures"]] == [2000, 35, 35]
    assert all(row["worst_z"] < 4.5 for row in record["figures"])
    for name in ("figure1", "figure2", "figure3"):
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (folder / f"{name}.svg").read_text()
        with (folder / f"{name}.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert {"estimate", "standard_error", "exact", "bound", "ceil", "offset", "z"} <= set(rows[0])
        for row in rows:
            if row["z"]:
                z = (float(row["estimate"]) - float(row["exact"])) / float(row["standard_error"])
                assert float(row["z"]) == pytest.approx(z)
            if row["bound"]:
                assert float(row["exact"]) <= float(row["bound"])


def test_a_figure_does_not_depend_on_the_others_and_is_the_same_each_time(tmp_path):
    run("reproduce figure3 figure1 --draws 50 --output", str(tmp_path / "two"))
    result = run("reproduce figure3 --draws 50 --output", str(tmp_path / "one"))
    assert "worst deviation" in result.stdout
    assert len(list((tmp_path / "one").iterdir())) == 3
    for suffix in ("csv", "svg", "png"):
        one, two = ((tmp_path / folder / f"figure3.{suffix}").read_bytes() for folder in ("one", "two"))
        assert one == two


def test_the_summary_of_figure_2_quotes_the_known_values(tmp_path):
    text = run("reproduce figure2 --draws 50 --output", str(tmp_path)).stdout
    assert all(value in text for value in ("3.677", "1.640", "0.4980", "0.1772", "0.04782"))
    assert re.search(
        r"By chance alone, at least one of 35 deviations is \d\.\d\d standard errors", " ".join(text.split())
    )
    assert max(map(len, text.splitlines()[:-1])) <= 80  # the last line holds the path


def test_an_output_that_cannot_be_written_is_refused_before_any_work(tmp_path):
    file = tmp_path / "taken"
    file.write_text("mine")
    assert "must be a folder, not the file" in complaint("reproduce --output", str(file))
    assert "must be a writable folder" in complaint("reproduce --output", str(file / "below"))
    assert "must be a folder" in complaint("demo --output", str(file))
    assert file.read_text() == "mine"
    for command in ("demo", "reproduce"):
        name = tmp_path / "new" / "figure.png"
        assert complaint(f"{command} --output", str(name)) == f"--output must be a folder, not the file name '{name}'."
    assert [each.name for each in tmp_path.iterdir()] == ["taken"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    assert "permission denied" in complaint("reproduce --output", str(tmp_path))


def test_bad_figures_and_draws_leave_nothing_behind(tmp_path):
    folder = str(tmp_path / "figures")
    assert "Did you mean 'figure1'?" in complaint("reproduce figur1 --output", folder)
    assert complaint("reproduce --draws 1 --output", folder) == "--draws must be at least 2, not 1."
    assert complaint("reproduce") == "--output must be given."
    assert list(tmp_path.iterdir()) == []


def test_a_failure_while_writing_leaves_nothing_half_written(tmp_path, monkeypatch):
    def fail(figure, paths):
        paths[0].write_text("half a pict")
        raise OSError(28, "No space left on device", str(paths[0]))

    monkeypatch.setattr("unmask.plot.paper_figure", fail)
    assert "no space left" in complaint("reproduce figure3 --draws 2 --output", str(tmp_path / "a" / "b"))
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_reproduce_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert 'pip install "unmask[plot]"' in complaint("reproduce --output", str(tmp_path / "figures"))
    assert list(tmp_path.iterdir()) == []


# demo


def test_the_demo_shows_a_table_and_saves_a_figure(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("demo")
    assert result.exit_code == 0
    assert [file.name for file in tmp_path.iterdir()] == ["unmask-demo.png"]
    assert "Figure: unmask-demo.png" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    rows = answer("demo --output", str(tmp_path))["rows"]
    best = {}
    for row in rows:
        held = best.setdefault(row["distribution"], row)
        best[row["distribution"]] = min(held, row, key=lambda each: each["expected_kl"])
    assert [row["size"] for row in best.values()] == ["optimal"] * 3
    errors = {(row["distribution"], row["size"]): row["expected_kl"] for row in rows}
    # One schedule does for both codes what takes one each, within a fifth.
    assert errors["code, low TC", "minimax-min"] < 1.2 * errors["code, low TC", "tc"]
    assert errors["code, low DTC", "minimax-min"] < errors["code, low DTC", "dtc"]
    assert errors["Markov chain", "even"] < errors["Markov chain", "minimax-min"]


def test_the_demo_writes_a_text_and_prices_schedules_with_the_built_in_model(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    result = answer("demo")
    assert [row["model"] for row in result["texts"]] == ["causal", "builtin"]
    for row in result["texts"]:
        assert len(row["text"]) == 256
        assert set(row["text"]) <= set("abcdefghijklmnopqrstuvwxyz ")
        assert row["seconds"] > 0
        assert 0 < row["bits_per_token"] < 4.75
    bits = {(row["order"], row["size"], row["steps"]): row["bits_per_token"] for row in result["costs"]}
    # Sixteen steps of the comb beat 256 in random order, and every other schedule of sixteen steps.
    assert bits["comb", "even", 16] < bits["random", "one by one", 256]
    assert min((cost, key) for key, cost in bits.items() if key[2] == 16)[1] == ("comb", "even", 16)
    assert bits["random", "optimal", 16] <= bits["random", "even", 16]
    shown = run("demo").stdout
    assert all(" ".join(row["text"].split())[:40] in " ".join(shown.split()) for row in result["texts"])
    assert f"{bits['comb', 'even', 16]:.3f} *" in shown


def test_without_torch_the_demo_says_how_to_see_a_text(tmp_path):
    script = "import sys; sys.modules['torch'] = None; from unmask.cli import main; main(['demo'])"
    result = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert 'pip install "unmask[torch]"' in result.stdout
    assert "Expected KL in nats" in result.stdout


def test_without_matplotlib_the_demo_does_without_a_figure(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.chdir(tmp_path)
    result = run("demo")
    assert result.exit_code == 0
    assert 'pip install "unmask[plot]"' in result.stdout
    assert answer("demo")["figure"] is None
    assert list(tmp_path.iterdir()) == []


def test_with_a_broken_matplotlib_the_demo_says_what_is_wrong_with_it(tmp_path, monkeypatch):
    (tmp_path / "matplotlib").mkdir()
    (tmp_path / "matplotlib" / "__init__.py").write_text("import kernels_of_it")
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    shown = " ".join(run("demo").stdout.split())
    assert "is installed, but fails when it is imported: ModuleNotFoundError: No module named 'kernels_of_it'" in shown
    assert "not installed" not in shown


# What the commands share


def test_an_option_is_called_by_its_own_name():
    assert complaint("expect --distribution parity --length 8 --size tc, --steps 2").startswith("--size must")


@pytest.mark.parametrize("name", ["even", "tc", "minimax-tc", "offset", "log-linear"])
def test_lengths_beyond_any_array_are_refused_in_a_sentence(name):
    line = f"plan --length 99999999999999999999 --steps 2 --size {name}"
    assert complaint(line) == "--length must be at most 281474976710656, not 99999999999999999999."


def test_no_error_at_all_and_a_single_token_have_their_fewest_steps():
    assert answer("steps --distribution parity --length 8 --size optimal --target 0")["measured"][0]["steps"] == 2
    rows = answer("steps --length 1 --tc 0 --dtc 0 --target 0.1")["guaranteed"]
    assert [row["exact"] for row in rows] == [1] * len(rows)
    rows = answer("steps --length 8 --tc 1e308 --target 1e-308")["guaranteed"]
    assert [row["simplified"] for row in rows] == [8, None]  # never more steps than tokens


def test_numbers_are_short_and_readable():
    values = (0.0, 1.0, 0.0478203, 38.123, 9999, 15211.11, 1e-7)
    assert [number(value) for value in values] == ["0", "1.000", "0.04782", "38.12", "9999", "15,211", "1.000e-07"]
    assert abbreviated(np.arange(5)) == "0, 1, 2, 3, 4"
    assert abbreviated(np.arange(100), most=4) == "0, 1, … 98, 99"


def test_a_picture_has_one_bar_per_step_and_says_when_its_scale_is_logarithmic():
    lines = picture(np.array([1.0, 2.0]), width=10, height=2)
    assert lines == ["2 ┤     █████", "0 ┤██████████", "   step 1 step 2", "   mean size of each step"]
    assert "logarithmic" in picture(size.TC(100).mean_sizes(2000))[-1]
    # A logarithmic scale names the smallest value, in the line where its bar ends.
    assert picture(np.array([1.0, 32.0]), width=2, height=6)[3:6] == ["   ┤ █", "   ┤ █", " 1 ┤██"]
    assert picture(np.array([1.0, 21.0]), width=2, height=6)[3:6] == ["   ┤ █", " 1 ┤▁█", "   ┤██"]
    assert max(map(len, picture(size.DTC(1000).mean_sizes(100_000)))) <= 80


def test_staged_files_arrive_together(tmp_path):
    with staged(tmp_path / "out") as folder:
        (folder / "a").write_text("1")
        (folder / "b").write_text("2")
        assert not (tmp_path / "out" / "a").exists()
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["a", "b"]
