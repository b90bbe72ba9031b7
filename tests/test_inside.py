"""Calibration and advice inside blocks: words, what is measured, and a forecast that replay on other texts confirms."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from test_cli_models import LENGTH, LETTERS, answer, complaint, place, run, source  # noqa: E402, F401
from unmask import InputError, models, order, size  # noqa: E402
from unmask.calibration import advise, blank, measure_rules  # noqa: E402
from unmask.distribution import Markov  # noqa: E402
from unmask.evaluate import replay  # noqa: E402
from unmask.models import weights  # noqa: E402
from unmask.models.blocks import BlockConfig  # noqa: E402
from unmask.predict import ExactPredictor, Suppressed  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402
from unmask.words.calibrating import usual  # noqa: E402
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


def test_blocks_of_a_block_causal_model_are_counted_from_the_beginning(place, tmp_path):  # noqa: F811
    """As its own are: a prompt of 3 tokens leaves 5 of the first block of 8, not a block across two."""
    torch.manual_seed(0)
    shape = {"width": 16, "layers": 1, "heads": 2, "hidden": 32, "readers": 1, "reader_hidden": 32}
    network = BlockConfig(vocab=len(LETTERS), length=LENGTH, block=8, **shape).network()
    weights.save(network, tmp_path / "m.safetensors", about={"alphabet": LETTERS})
    file = tmp_path / "c.json"
    line = ("calibrate --model", tmp_path / "m.safetensors", "--text", place / "text.txt", "--output", file)
    record = answer(*line, "--texts 6 --blocks 8")
    assert record["measured"] == list(rules_named(["whole-blocks-8"], LENGTH))
    advice = answer("advise --calibration", file, "--steps 8 --save", tmp_path / "s.json")
    assert advice["order"].startswith("whole-blocks-8/")
    blocks = Schedule.load(tmp_path / "s.json").order.blocks(np.arange(3, 16))
    assert [len(block) for block in blocks] == [5, 8]
    shown = " ".join(run("advise --calibration", file, "--steps 8").stdout.split())
    assert "Take blocks of 8 tokens, counted from the beginning: " in shown
    model = models.load(tmp_path / "m.safetensors")
    wrapped = replace(model, predictor=Suppressed(model.predictor, [0]))
    assert usual(wrapped, [], [], said=False, blocks=8) == ([], ["whole-blocks-8"])
