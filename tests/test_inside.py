"""Calibration and advice inside blocks: words, what is measured, and a forecast that replay on other texts confirms."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from test_cli_models import LENGTH, answer, complaint, place, run, source  # noqa: E402, F401
from unmask import InputError, order, size  # noqa: E402
from unmask.calibration import advise, blank, measure_rules  # noqa: E402
from unmask.distribution import Markov  # noqa: E402
from unmask.evaluate import replay  # noqa: E402
from unmask.predict import ExactPredictor  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402
from unmask.words.rules import check_rule, rules_named  # noqa: E402

CHAIN = Markov.sticky(4, 0.8, 24)


def texts(count, seed):
    return torch.from_numpy(CHAIN.sample(count, rng=np.random.default_rng(seed)))


def test_the_word_for_blocks_stands_for_orders_and_steps_inside_them():
    found = rules_named(["blocks-8"], 24)
    assert list(found) == [
        *(f"blocks-8/{name}/even:{steps}" for name in ("whole-comb", "spread", "random", "margin") for steps in (2, 4)),
        "blocks-8/left-to-right/even:8",
    ]
    assert found["blocks-8/whole-comb/even:2"] == Schedule(size.Even(2), order.Blocks(order.Comb(shift=0), 8))
    assert list(rules_named(["blocks-32/entropy/even"], 64))[-1] == "blocks-32/entropy/even:16"
    # Blocks of which a text fills a part, and blocks that leave no choice.
    assert list(rules_named(["blocks-32"], 6))[-1] == "blocks-32/left-to-right/even:6"
    assert list(rules_named(["blocks-1"], 6))[-1] == "blocks-1/left-to-right/even:1"
    for word in ("blocks-0", "blocks-", "blocks-x", "blocks-8/", "blocks-8/even:2", "blocks-8/blocks-4/random/even:2"):
        with pytest.raises(InputError):
            check_rule(word)


@pytest.mark.parametrize("asked", [{"steps": 12}, {"steps": 6}, {"target": 0.1}])
def test_what_is_forecast_inside_blocks_is_what_replay_measures(asked):
    """On other texts, within 3 standard errors of both: fails with probability below 3e-3 each for a fresh seed."""
    given, others = texts(64, 1), texts(1500, 2)
    predictor, rules = ExactPredictor(CHAIN), rules_named(["blocks-8"], 24)
    found = measure_rules(predictor, rules, given, blank("chain", given, 0), rng=0)
    advice = advise(found, **asked)
    assert isinstance(advice.schedule.order, order.Blocks)
    assert advice.evaluations <= asked.get("steps", 24)
    measured = replay(predictor, advice.schedule, others, rng=3, batch=512).per_sequence
    assert abs(measured.mean - advice.cost) <= 3 * np.hypot(measured.standard_error, advice.cost_error)
    # Both are known exactly here: on a chain, what stands apart knows little of each other.
    assert advice.order.startswith(("blocks-8/whole-comb", "blocks-8/spread"))


def test_blocks_from_the_command_line(place, tmp_path):  # noqa: F811
    file = tmp_path / "c.json"
    line = ("calibrate", *source(place), "--output", file, "--texts 12")
    record = answer(*line, "--blocks 8")
    assert record["orders"] == []
    assert record["measured"] == list(rules_named(["blocks-8"], LENGTH)) == [row["name"] for row in record["rules"]]
    spent = {row["name"]: row["evaluations"] for row in record["rules"]}
    assert spent["blocks-8/whole-comb/even:2"] == 2 * LENGTH / 8
    assert answer(*line, "--blocks 8")["measured"] == []
    advice = answer("advise --calibration", file, "--steps 8 --save", tmp_path / "s.json")
    assert advice["order"].startswith("blocks-8/")
    assert (advice["how"], advice["evaluations"]) == ("measured", 8.0)
    shown = " ".join(run("advise --calibration", file, "--steps 8").stdout.split())
    inner = advice["order"].removeprefix("blocks-8/")
    assert f"Take blocks of 8 tokens: {inner} order inside, 4 steps a block, even sizes, 8 evaluations in all." in shown
    made = answer("generate --model", place / "m.safetensors", "--schedule", tmp_path / "s.json")
    assert made["schedule"]["order"]["name"] == "blocks"
    both = answer(*line, "--blocks 8 --orders random")
    assert both["orders"] == ["random"]
    assert "must be at least 1, not 0" in complaint(*line, "--blocks 0")
