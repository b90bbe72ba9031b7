"""The command line with curves and gauges: optimal and minimax sizes, files, estimates."""

import json

import numpy as np
import pytest

from test_cli import answer, complaint, run
from unmask import evaluate, gauge, size
from unmask.distribution import Markov
from unmask.information.curve import Curve
from unmask.names import SIZES as NAMED
from unmask.words.schedules import CURVE_SIZES
from unmask.words.schedules import FREE_SIZES as SIZES

CHAIN = "--distribution markov --length 32 --alphabet 3 --stay 0.7"
LOSS = Markov.sticky(3, 0.7, 32).curve().loss


@pytest.fixture
def curve(tmp_path):
    file = tmp_path / "curve.csv"
    file.write_text("\n".join(map(repr, LOSS.tolist())))
    return str(file)


# Sizes with a factor


@pytest.mark.parametrize(("name", "key"), [("tc", "tc"), ("dtc", "dtc"), ("min", "min"), ("sum", "sum")])
def test_a_minimax_plan_states_its_factor_and_no_other_size_has_a_smaller_one(name, key):
    record = answer(f"plan --length 60 --steps 12 --size minimax-{name}")
    assert record["factor"] == pytest.approx(record["guarantee"][key], rel=1e-9)
    for other in SIZES:
        promised = answer(f"plan --length 60 --steps 12 --size {other}")["guarantee"][key]
        assert promised >= record["factor"] * (1 - 1e-9)
    text = run(f"plan --length 60 --steps 12 --size minimax-{name}").stdout
    assert text.count("the smallest factor possible in 12 steps") == 1


def test_the_universal_plan_says_what_its_factor_means():
    record = answer("plan --length 256 --steps 32 --size universal")
    assert record["factor"] == pytest.approx(2.17, abs=0.005)
    for name in ("tc", "dtc", "sum"):
        best = answer(f"plan --length 256 --steps 32 --size minimax-{name}")["factor"]
        assert best < record["guarantee"][name] <= record["factor"] * best * (1 + 1e-9)
    text = run("plan --length 256 --steps 32 --size universal").stdout
    words = "for TC, for DTC and for their sum are each at most 2.166 times the smallest possible in 32 steps."
    assert words in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80


def test_only_minimax_sizes_have_a_factor():
    for name in ("even", "tc", "logit"):
        assert "factor" not in answer(f"plan --length 16 --steps 4 --size {name}")


# Gauges


def test_a_gauge_file_plans_its_minimax_schedule(tmp_path):
    file = tmp_path / "gauge.json"
    file.write_text(json.dumps(gauge.tc(20).tolist()))
    record = answer("plan --steps 5 --gauge", str(file))
    named = answer("plan --length 20 --steps 5 --size minimax-tc")
    assert record.pop("size") == "minimax"
    assert named.pop("size") == "minimax-tc"
    assert record == named
    assert answer("plan --length 20 --steps 5 --size minimax --gauge", str(file))["factor"] == record["factor"]
    text = run("plan --steps 5 --gauge", str(file)).stdout
    assert "0.2508 × Σ gauge · drops" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_bad_gauge_is_refused(tmp_path):
    file = tmp_path / "gauge.csv"
    file.write_text("1\n2\n0\n")
    assert complaint("plan --steps 2 --gauge", str(file)).endswith("has 0 at rank 3.")
    file.write_text("1\n2\n3\n")
    assert "must have 9 numbers for a length of 10" in complaint("plan --length 10 --steps 2 --gauge", str(file))
    assert complaint("plan --steps 5 --gauge", str(file)).startswith("--steps must be at most the length 4")
    assert "Size 'tc' cannot be used with --gauge, because --gauge always uses the size 'minimax'" in complaint(
        "plan --steps 2 --size tc --gauge", str(file)
    )
    assert complaint("plan --length 4 --steps 2 --size minimax").startswith("Size 'minimax' needs a gauge.")
    assert "Did you mean 'minimax-" in complaint(f"expect {CHAIN} --size minimax --steps 4")
    assert "the name of an existing file" in complaint("plan --steps 2 --gauge", str(tmp_path / "absent"))


# Curves


@pytest.mark.parametrize("name", CURVE_SIZES)
def test_sizes_made_for_a_curve_take_it_from_a_file_or_a_distribution(name, curve):
    from_file = answer(f"plan --steps 6 --size {name} --curve", curve)
    from_chain = answer(f"plan --steps 6 --size {name} {CHAIN}")
    assert from_file["sizes"] == from_chain["sizes"] == NAMED[name].make(6, Curve(LOSS)).sizes(32).tolist()
    assert from_file["expected_kl"] == pytest.approx(from_chain["expected_kl"], rel=1e-12)
    assert from_file["data"] == {"name": "curve", "file": curve, "length": 32}
    assert from_chain["data"] == {"name": "markov", "length": 32, "alphabet": 3, "stay": 0.7}
    assert complaint(f"plan --length 32 --steps 6 --size {name}") == (
        f"Size '{name}' needs a loss curve. Give one with --curve, or name a --distribution."
    )


def test_expect_on_a_curve_agrees_with_the_distribution_and_optimal_wins(curve):
    names = ",".join([*SIZES, *CURVE_SIZES])
    rows = answer(f"expect --size {names} --steps 4,8 --curve", curve)["rows"]
    again = answer(f"expect {CHAIN} --size {names} --steps 4,8")["rows"]
    for row, other in zip(rows, again, strict=True):
        assert (row["size"], row["steps"]) == (other["size"], other["steps"])
        assert row["expected_kl"] == pytest.approx(other["expected_kl"], rel=1e-9)
    for count in (4, 8):
        group = {row["size"]: row["expected_kl"] for row in rows if row["steps"] == count}
        assert group["optimal"] == min(group.values())
        assert group["square-root"] < 1.05 * group["optimal"]


def test_steps_on_a_curve_are_the_fewest(curve):
    record = answer("steps --target 0.5 --size optimal,minimax-min --curve", curve)
    known = Curve(LOSS)
    assert record["length"] == 32
    assert record["tc"] == pytest.approx(known.total_correlation)
    count = record["measured"][0]["steps"]
    assert evaluate.expected_kl(size.Optimal(count, known), known) <= 0.5
    assert evaluate.expected_kl(size.Optimal(count - 1, known), known) > 0.5
    assert record["data"]["name"] == "curve"


def test_an_increasing_curve_is_made_monotone_only_when_asked(tmp_path):
    file = tmp_path / "noisy.json"
    file.write_text('{"loss": [3, 2, 2.1, 0.5]}')
    for line in ("plan --size optimal --steps 2", "expect --size even --steps 2", "steps --target 1"):
        assert complaint(f"{line} --curve", str(file)) == (
            "--curve must not increase, but it rises by 0.1 from 1 to 2 visible tokens. Use --monotone to "
            "replace it with the nearest curve that does not."
        )
        text = run(f"{line} --monotone --curve", str(file))
        assert text.exit_code == 0
        assert "isotonic regression changed it by up to 0.05000 nats" in " ".join(text.stdout.split())
        assert max(map(len, text.stdout.splitlines())) <= 80
    record = answer("expect --size even --steps 2 --monotone --curve", str(file))
    assert record["distribution"]["monotone_change"] == pytest.approx(0.05)
    file.write_text("[3, 2, 1]")
    assert (
        "The curve does not increase, so nothing had to be changed."
        in run("steps --target 1 --monotone --curve", str(file)).stdout
    )
    assert answer("steps --target 1 --monotone --curve", str(file))["data"]["monotone_change"] == 0


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "plan --length 31 --steps 4 --size optimal",
            "--curve must have 31 numbers for a length of 31, but '",
        ),
        ("expect --length 33 --steps 4 --size even", "--curve must have 33 numbers for a length of 33, but '"),
        ("expect --steps 33 --size even", "--steps must be at most the length 32, not 33."),
        (f"expect {CHAIN} --steps 4 --size even", "--curve and --distribution cannot be used together."),
        ("expect --stay 0.5 --steps 4 --size even", "--stay cannot be used with --curve. Leave out --stay."),
        (
            "steps --target 1 --estimate-curve 9",
            "--estimate-curve cannot be used with --curve. Leave out --estimate-curve.",
        ),
        ("steps --target 1 --tc 3", "--tc and --dtc are computed from --curve. Leave them out."),
    ],
)
def test_a_curve_that_does_not_fit_is_refused(curve, line, sentence):
    assert complaint(f"{line} --curve", curve).startswith(sentence)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("expect --steps 4 --size even", "Say what the data are: give --distribution with its options, or --curve."),
        ("plan --steps 4 --size even", "--length must be given."),
        ("steps --tc 4 --target 1", "--length must be given."),
        ("plan --steps 4 --length 8 --size even --monotone", "--monotone needs --curve."),
        (f"plan --steps 4 --size even {CHAIN} --monotone", "--monotone needs --curve."),
        ("plan --steps 4 --length 8 --size even --stay 0.5", "--stay needs --distribution."),
        (
            "plan --steps 4 --length 8 --size even --estimate-curve 9",
            "--estimate-curve needs --distribution",
        ),
        (
            "steps --length 9 --tc 1 --target 1 --size tc",
            "With --target, --size needs --distribution or --curve. Give one of them, or leave out --size.",
        ),
        (
            f"expect {CHAIN} --steps 4 --size tc --estimate-curve 3",
            "--estimate-curve must be at least 4, not 3",
        ),
    ],
)
def test_options_without_a_use_are_refused(line, sentence):
    assert complaint(line).startswith(sentence)


def test_steps_leave_the_optimum_out_of_a_long_default_only():
    line = "steps --distribution reed-solomon --length 5000 --dimension 4990 --alphabet 8192 --target 100000"
    assert "optimal" not in [row["size"] for row in answer(line)["measured"]]
    assert [row["size"] for row in answer(f"{line} --size optimal")["measured"]] == ["optimal"]


# Estimated curves


def test_an_estimated_curve_comes_with_standard_errors_that_hold():
    """Each of the 12 deviations exceeds 5 standard errors (of 49 degrees) with probability 1e-5; the seed is fixed."""
    line = "expect --distribution linear --length 16 --dimension 8 --alphabet 2 --size even,tc,dtc --steps 2,4,8,12"
    exact, guess = answer(line), answer(f"{line} --estimate-curve 2000")
    assert guess["distribution"]["estimated_from"] == 2000
    assert 0 < guess["distribution"]["curve_standard_error"] < 0.02
    for row, truth in zip(guess["rows"], exact["rows"], strict=True):
        assert "curve_error" not in truth
        # Isotonic regression moves a mean by less than its error.
        assert abs(row["expected_kl"] - truth["expected_kl"]) < 5 * row["curve_error"] + 1e-3


def test_a_long_code_is_estimated_and_says_so():
    line = "expect --distribution linear --length 60 --dimension 30 --alphabet 2 --size tc,minimax-tc,optimal --steps 8"
    assert complaint(line).endswith("Use --estimate-curve to estimate it.")
    text = run(f"{line} --estimate-curve 40").stdout
    assert "The curve is estimated from 40 draws" in text
    assert "± s.e. of curve" in text
    assert max(map(len, text.splitlines())) <= 80
    assert answer(f"{line} --estimate-curve 40") == answer(f"{line} --estimate-curve 40")


def test_any_distribution_can_be_estimated():
    rows = answer(f"expect {CHAIN} --size even --steps 8 --estimate-curve 200")["rows"]
    truth = evaluate.expected_kl(size.Even(8), Curve(LOSS))
    assert abs(rows[0]["expected_kl"] - truth) < 5 * rows[0]["curve_error"]  # fails with probability below 1e-5
    plan = answer(f"plan {CHAIN} --size optimal --steps 8 --estimate-curve 20")
    assert plan["standard_error"] > 0
    assert np.sum(plan["sizes"]) == 32
