"""Predictors that remember are scored in one pass: what the sampler gives text by text, whatever the steps."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import unmask  # noqa: E402
from families import FAMILIES  # noqa: E402
from pairs import label  # noqa: E402
from test_cli_models import answer, complaint, run  # noqa: E402
from unmask import InputError, order, size  # noqa: E402
from unmask.calibration import (  # noqa: E402
    Calibration,
    advise,
    blank,
    forecast,
    measure,
    measure_orders,
    measure_rules,
    one_by_one,
    series,
)
from unmask.evaluate import compare, random_order, replay, replays  # noqa: E402
from unmask.evaluate.likelihood import at_once  # noqa: E402
from unmask.models import weights  # noqa: E402
from unmask.models.causal import CausalConfig  # noqa: E402
from unmask.predict import Counted, Tempered  # noqa: E402
from unmask.sample import Sampler, Stop  # noqa: E402
from unmask.sample.draw import Replay  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402
from unmask.sequences import Sequences  # noqa: E402
from unmask.words.rules import check_rule, rules_named  # noqa: E402
from unmask.words.sentences import advice as sentences  # noqa: E402

VOCAB, LENGTH, END = 5, 12, 3
SHAPE = {"vocab": VOCAB, "length": LENGTH, "width": 16, "heads": 2, "hidden": 24, "reader_hidden": 24}
ORDERS = [
    order.Random(), order.Spread(), order.Comb(), order.Comb(shift=0), order.Comb(2), order.Periodic([0, 2, 1]),
    order.LeftToRight(), order.Dilated(), order.Blocks(order.Random(), 5), order.Blocks(order.Comb(), 4),
]  # fmt: skip


def network(seed=0, readers=2):
    """A network with weights of random sizes, so that nothing it looks at is negligible."""
    torch.manual_seed(seed)
    model = CausalConfig(layers=2, readers=readers, **SHAPE).network().eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return model


PREDICTOR = network().predictor()
TEXTS = torch.randint(VOCAB, (40, LENGTH), generator=torch.Generator().manual_seed(0))


def mixed(seed=0, count=11):
    """Texts of different lengths, with prompts of different lengths, gaps, ends, and one with nothing to fill."""
    source = np.random.default_rng(seed)
    tokens, masked = [], []
    for number in range(count):
        length = int(source.integers(1, LENGTH + 1))
        hidden = np.arange(length) >= source.integers(length)
        if number % 3 == 0:
            hidden = source.random(length) < 0.6
        tokens.append(source.integers(VOCAB, size=length).tolist())
        masked.append((hidden & (number != 4)).tolist())
    return Sequences.of(tokens, masked)


def by_sampler(predictor, schedule, texts, seeds, end=None):
    """Nats and evaluations of each text, run alone by the sampler with its own tokens in place of draws."""
    nll, spent = [], []
    for number, seed in enumerate(seeds):
        one = texts[[number]]
        stop = None if end is None else Stop(end, end)
        trace = Sampler(predictor, schedule, Replay(one.tokens), stop).run(one.tokens, one.masked, rng=[seed])
        nll.append(float(trace.nll))
        spent.append(int(trace.evaluations[0]))
    return torch.tensor(nll, dtype=torch.float64), spent


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@pytest.mark.parametrize("kind", ORDERS, ids=label)
def test_one_pass_costs_what_the_sampler_does_text_by_text(kind, family):
    """Random sizes and orders are drawn as the sampler draws them; 1e-5 nats are rounding in float32."""
    schedule = Schedule(family(3), kind)
    texts, seeds = mixed(), list(range(50, 61))
    assert at_once(PREDICTOR, schedule)
    for end in (None, END):
        found = replay(PREDICTOR, schedule, texts, rng=seeds, end=end, batch=4)
        nll, spent = by_sampler(PREDICTOR, schedule, texts, seeds, end)
        torch.testing.assert_close(found.nll, nll, atol=1e-5, rtol=0)
        assert found.evaluations.tolist() == spent
        assert found.passes.tolist() == [int(each > 0) for each in spent]


@pytest.mark.parametrize("seed", range(30))
def test_the_evaluations_of_a_sampler_that_stops_follow_from_the_steps(seed):
    """Whether the end comes in one step with others, in the last, within a gap or in the prompt."""
    texts, seeds = mixed(seed, 7), list(range(7))
    kind = ORDERS[seed % len(ORDERS)]
    found = replay(PREDICTOR, Schedule(size.Even(1 + seed % 6), kind), texts, rng=seeds, end=END)
    _, spent = by_sampler(PREDICTOR, Schedule(size.Even(1 + seed % 6), kind), texts, seeds, END)
    assert found.evaluations.tolist() == spent
    assert min(found.evaluations.tolist()) == 0  # one text has nothing to fill


def test_what_follows_the_end_is_not_scored():
    tokens = torch.tensor([[0, 1, END, 2, 4, END, 0, 1, 2, 0, 1, 2]])
    other = torch.tensor([[0, 1, END, 1, 1, 1, 1, 1, 1, 1, 1, 1]])
    schedule = Schedule(size.Even(12), order.LeftToRight())
    found = [replay(PREDICTOR, schedule, each, rng=[0], end=END) for each in (tokens, other)]
    assert torch.equal(found[0].nll, found[1].nll)
    assert found[0].revealed.tolist() == found[0].evaluations.tolist() == [3]
    assert found[0].counts.valid_tokens == 2
    with pytest.raises(InputError, match="'end' must be at most 4, not 17"):
        replay(PREDICTOR, schedule, tokens, rng=[0], end=17)


@pytest.mark.parametrize("readers", [0, 1, 2])
def test_a_text_costs_the_same_bits_alone_and_in_any_batch(readers):
    predictor, texts = network(1, readers).predictor(), mixed(3, 9)
    schedule, seeds = Schedule(size.Even(4), order.Random()), list(range(9))
    costs = [replay(predictor, schedule, texts, rng=seeds, batch=batch).nll for batch in (1, 2, 5, 9)]
    for cost in costs[1:]:
        assert torch.equal(cost, costs[0])


def test_one_pass_needs_one_pass():
    """The network is run over every text once, whatever the number of steps, and progress says so."""
    model, seen, done = network(), [], []
    hidden = model.hidden
    model.hidden = lambda tokens, step: seen.append(len(tokens)) or hidden(tokens, step)
    tokens = torch.randint(VOCAB, (10, LENGTH), generator=torch.Generator().manual_seed(0))
    found = replays(
        model.predictor(), [Schedule(size.Even(steps), order.Comb(shift=0)) for steps in (2, 12)], tokens, rng=0,
        batch=4, progress=lambda number, count: done.append((number, count)),
    )  # fmt: skip
    assert sum(seen) == 20
    assert done == [(number, count) for number in (0, 1) for count in (4, 4, 2)]
    assert [each.mean_evaluations for each in found] == [2, 12]
    assert [each.mean_passes for each in found] == [1, 1]


def test_what_looks_at_predictions_goes_through_the_sampler_and_what_is_altered_does_not():
    tokens = torch.randint(VOCAB, (5, LENGTH), generator=torch.Generator().manual_seed(0))
    looking = Schedule(size.Even(4), order.Confidence())
    found = replay(PREDICTOR, looking, tokens, rng=0)
    assert found.passes.tolist() == found.evaluations.tolist() == [4] * 5
    blind = Schedule(size.Even(4), order.Random())
    altered = Counted(Tempered(PREDICTOR, 2.0))
    assert not at_once(altered, looking)
    assert altered.remembers
    found = replay(altered, blind, tokens, rng=list(range(5)))
    assert found.passes.tolist() == [1] * 5
    assert (altered.calls, altered.sequences, altered.rows) == (1, 5, 5 * LENGTH)
    stepwise, spent = by_sampler(Tempered(PREDICTOR, 2.0), blind, Sequences.of(tokens), range(5))
    assert found.evaluations.tolist() == spent == [4] * 5
    torch.testing.assert_close(found.nll, stepwise, atol=1e-5, rtol=0)


def test_predictions_that_are_no_numbers_are_refused():
    model = network()
    torch.nn.init.constant_(model.head.weight, torch.nan)
    tokens = torch.zeros((2, LENGTH), dtype=torch.int64)
    with pytest.raises(InputError, match="logits that are not numbers"):
        replay(model.predictor(), Schedule(size.Even(4), order.Random()), tokens, rng=0)


def test_a_network_in_training_mode_is_scored_as_it_evaluates_and_put_back():
    model = network().train()
    tokens = torch.zeros((2, LENGTH), dtype=torch.int64)
    found = replay(model.predictor(), Schedule(size.Even(4), order.Random()), tokens, rng=0)
    assert model.training
    assert not found.nll.requires_grad


def test_longer_texts_than_the_network_takes_are_refused():
    with pytest.raises(InputError, match="must have at most 12 positions, not 13"):
        replay(PREDICTOR, Schedule(size.Even(4), order.Random()), torch.zeros((2, 13), dtype=torch.int64), rng=0)


# What a set of visible tokens does not say


def test_losses_by_visible_tokens_are_refused_and_the_way_out_is_named():
    tokens = torch.zeros((4, LENGTH), dtype=torch.int64)
    for predictor in (PREDICTOR, Tempered(PREDICTOR, 2.0)):
        with pytest.raises(
            InputError, match=r"remembers the steps in which they were revealed\. To score .*, use `replay`"
        ):
            random_order(predictor, tokens, rng=0)
        with pytest.raises(
            InputError,
            match=r"an order alone does not determine the losses\. Measure planned schedules with `measure_rules`",
        ):
            measure(predictor, order.Random(), tokens, rng=0)
        with pytest.raises(InputError, match="remembers the steps in which they were revealed"):
            measure_orders(predictor, {"random": order.Random()}, tokens, blank("it", tokens, 0), rng=0)


def test_the_reference_of_a_comparison_is_one_by_one_in_random_order():
    texts, done = mixed(8, 9)[[0, 1, 2, 3, 5, 6, 7, 8]], []
    schedules = [Schedule(size.Even(2), order.Comb()), Schedule(size.Even(LENGTH), order.Random())]
    found = compare(PREDICTOR, schedules, texts, rng=7, progress=lambda number, count: done.append((number, count)))
    assert np.array_equal(found.reference, found.nll[1])
    assert found.passes.tolist() == [1, 1]
    assert sum(count for number, count in done if number == -1) == 8
    assert {number for number, _ in done} == {-1, 0, 1}
    again = type(found).from_json(found.to_json())
    assert again.to_json() == found.to_json()
    assert [cost.passes for cost in found.costs] == [1, 1]
    assert compare(PREDICTOR, schedules, texts, rng=7, reference=False).reference is None


# Calibrations of planned schedules


@pytest.fixture(scope="module")
def calibration():
    """Ten planned schedules of a small network on 40 texts."""
    kept = blank("it", TEXTS, 0)
    return measure_rules(PREDICTOR, rules_named(["planned"], LENGTH), TEXTS, kept, rng=0)


def test_planned_words_are_schedules_that_can_be_typed_back(calibration):
    names = list(rules_named(["planned"], 256))
    assert names == [
        *(f"whole-comb/even:{steps}" for steps in (4, 8, 16, 32, 64, 128)),
        "left-to-right/even:256", "random/even:16", "random/even:64", "random/even:256",
    ]  # fmt: skip
    assert rules_named(names, 256) == rules_named(["planned"], 256)
    assert rules_named(["planned"], 256)["whole-comb/even:16"] == Schedule(size.Even(16), order.Comb(shift=0))
    assert list(calibration.rules) == [
        "whole-comb/even:4", "whole-comb/even:8", "left-to-right/even:12", "random/even:12"
    ]  # fmt: skip
    for length in (1, 2, 3):
        assert list(rules_named(["planned"], length)) == [f"left-to-right/even:{length}", f"random/even:{length}"]
    check_rule("planned")


def test_advice_from_measured_schedules_alone_is_the_best_of_them(calibration, tmp_path):
    costs = {name: rule.cost for name, rule in calibration.rules.items()}
    single = min(["left-to-right/even:12", "random/even:12"], key=costs.__getitem__)
    assert one_by_one(calibration) == {name: costs[name] for name in sorted(costs, key=costs.get) if ":12" in name}
    for steps in range(4, LENGTH + 1):
        found = advise(calibration, steps=steps)
        able = {name: cost for name, cost in costs.items() if calibration.rules[name].spent <= steps * 1.01}
        assert found.order == min(able, key=able.get)
        assert found.schedule == calibration.rules[found.order].schedule
        assert (found.reference, found.best) == (single, costs[single])
        assert found.measured
        assert found.above_error is not None
        assert found.optimism is not None
        assert forecast(calibration, found.schedule) == (able[found.order], calibration.rules[found.order].error, True)
        assert f"measured rule {found.order}, {found.evaluations:g} evaluations a text" in str(found)
        said = sentences(found, calibration, None)
        assert said[0].startswith(f"Take the rule {found.order}: ")
        assert f"in {single.partition('/')[0]} order with 12 steps" in said[1]
    for bits in (0.0, 0.01, 0.1, 1.0, 5.0):
        limit = found.best + bits * np.log(2) * LENGTH
        kept = {name: rule for name, rule in calibration.rules.items() if rule.cost <= limit * (1 + 1e-9)}
        assert advise(calibration, target=bits).evaluations == min(rule.spent for rule in kept.values())
    with pytest.raises(InputError, match=r"'steps' must be at least 4, not 3\. No measured schedule takes fewer"):
        advise(calibration, steps=3)
    with pytest.raises(InputError, match="'steps' must be at most 12, not 13"):
        advise(calibration, steps=13)
    calibration.save(tmp_path / "c.json")
    again = Calibration.load(tmp_path / "c.json")
    assert again.to_json() == calibration.to_json()
    assert str(advise(again, steps=8)) == str(advise(calibration, steps=8))


def test_one_by_one_is_needed_to_compare_with(calibration):
    few = replace(calibration, rules={"whole-comb/even:4": calibration.rules["whole-comb/even:4"]})
    with pytest.raises(InputError, match="Measure the rule 'left-to-right/even:12' as well"):
        advise(few, steps=4)


def test_costs_of_texts_that_differ_are_over_their_own_tokens():
    texts = mixed(8, 40)
    texts = texts[np.flatnonzero(texts.counts.numpy() > 0).tolist()]
    found = measure_rules(PREDICTOR, rules_named(["planned"], LENGTH), texts, blank("it", texts, 0), rng=0)
    counts = texts.counts.double()
    assert found.tokens == pytest.approx(float(counts.mean()))
    assert found.tokens_of(4).mean() == pytest.approx(float(counts.mean()), rel=0.2)
    assert found.rules["left-to-right/even:12"].one_by_one
    assert not found.rules["whole-comb/even:4"].one_by_one
    advice = advise(found, steps=8)
    assert advice.tokens == found.tokens
    assert advice.evaluations <= 8


def test_what_was_measured_twice_is_the_same_and_measured_once(calibration):
    seen = []
    again = measure_rules(
        PREDICTOR, rules_named(["planned", "spread/even:3"], LENGTH), TEXTS, calibration, rng=0,
        progress=lambda name, done: seen.append((name, done)),
    )  # fmt: skip
    assert seen == [("spread/even:3", 32), ("spread/even:3", 8)]
    for name, rule in calibration.rules.items():
        assert again.rules[name] is rule
    found = replay(PREDICTOR, calibration.rules["random/even:12"].schedule, TEXTS, rng=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(calibration.rules["random/even:12"].nll, found.nll.numpy(), rtol=1e-6)


# The commands, the front door and the page


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a small network that is causal in the schedule, and a text for it."""
    folder = tmp_path_factory.mktemp("causal")
    weights.save(network(), folder / "m.safetensors", about={"alphabet": "abcd "})
    source = np.random.default_rng(0)
    (folder / "text.txt").write_text("".join(source.choice(list("abcd "), size=1500)))
    return folder


def line(place, command):
    return (command, "--model", place / "m.safetensors", "--text", place / "text.txt")


def test_evaluate_says_that_one_evaluation_was_enough(place):
    words = (*line(place, "evaluate"), "--texts 20 --order whole-comb,random,confidence --steps 4,12")
    found = answer(*words)
    assert [row["passes"] for row in found["rows"]] == [1, 1, 1, 1, 4, 12]
    assert [row["evaluations"] for row in found["rows"]] == [4, 12] * 3
    assert found["reference"]["passes"] == 1
    # Random order one by one is the reference itself.
    assert found["rows"][3]["excess"] == 0
    shown = run(*line(place, "evaluate"), "--texts 20 --order whole-comb --steps 4,12").stdout
    assert "Scored in 1 evaluation a text; writing one takes 4 to 12." in shown
    shown = run(*line(place, "evaluate"), "--texts 20 --order confidence --steps 4").stdout
    assert "Scored in 4 evaluations a text, as many as writing one takes." in shown


def test_calibrate_measures_planned_schedules_and_takes_twice_as_many_texts_again(place, tmp_path):
    file = tmp_path / "c.json"
    words = (*line(place, "calibrate"), "--output", file)
    first = answer(*words)
    assert first["texts"] == 32
    assert first["orders"] == first["rows"] == []
    assert first["measured"] == [row["name"] for row in first["rules"]] == list(rules_named(["planned"], LENGTH))
    assert [row["passes"] for row in first["rules"]] == [1, 1, 1, 1]
    assert [row["evaluations"] for row in first["rules"]] == [4, 8, 12, 12]
    assert first["passes"] == 4
    more = answer(*words, "--rules spread/even:3,confidence/even:4")
    assert (more["texts"], more["measured"], more["passes"]) == (32, ["spread/even:3", "confidence/even:4"], 5)
    again = answer(*words)
    assert (again["texts"], len(again["measured"])) == (64, 6)
    assert list(tmp_path.iterdir()) == [file]
    shown = run(*line(place, "calibrate"), "--output", tmp_path / "other.json").stdout
    assert "Measured with 4 evaluations of each text, one for each schedule." in shown
    record = answer("advise --calibration", file, "--steps 8 --save", tmp_path / "s.json")
    assert record["how"] == "measured"
    assert record["reference"]["order"] in ("left-to-right/even:12", "random/even:12")
    now = answer(*line(place, "advise"), "--texts 64 --steps 8")
    assert now["bits_per_token"] == pytest.approx(record["bits_per_token"], abs=0.2)
    row = answer(*line(place, "evaluate"), "--texts 64 --schedule", tmp_path / "s.json", "--calibration", file)["rows"][
        0
    ]
    assert row["predicted"] == pytest.approx(row["bits_per_token"], rel=1e-5)
    made = answer("generate --model", place / "m.safetensors", "--schedule", tmp_path / "s.json")
    assert made["schedule"] == record["schedule"]
    assert complaint(*words, "--orders random") == (
        "--orders must be left out, because this model is causal in the schedule and an order alone does not determine "
        "its losses. Name planned schedules with --rules, such as whole-comb/even:16."
    )
    optimal = complaint(*line(place, "evaluate"), "--order comb --size optimal --steps 4 --calibration", file)
    assert "needs a calibration of the order 'comb', but this one has none" in optimal


def test_a_calibration_that_was_stopped_goes_on_where_it_was(place, tmp_path, monkeypatch):
    file, done = tmp_path / "c.json", []
    measured = series.replay

    def stopping(*given, **more):
        done.append(given[1])
        if len(done) == 3:
            raise KeyboardInterrupt
        return measured(*given, **more)

    words = (*line(place, "calibrate"), "--output", file, "--texts 20")
    monkeypatch.setattr(series, "replay", stopping)
    assert run(*words).exit_code == 130
    assert Calibration.load(file).missing == ["left-to-right/even:12", "random/even:12"]
    assert answer(*words)["measured"] == ["left-to-right/even:12", "random/even:12"]
    assert len(done) == 5
    whole = answer(*line(place, "calibrate"), "--output", tmp_path / "whole.json", "--texts 20")
    assert whole["measured"] == list(rules_named(["planned"], LENGTH))
    assert Calibration.load(file).to_json() == Calibration.load(tmp_path / "whole.json").to_json()


def test_the_front_door_measures_planned_schedules_of_its_own_accord(place):
    model = unmask.load(place / "m.safetensors")
    found = unmask.calibrate(model, (place / "text.txt").read_text(), texts=20)
    assert (list(found.rules), found.losses) == (list(rules_named(["planned"], LENGTH)), {})
    assert unmask.advise(found, steps=8).measured
    assert list(unmask.calibrate(model, (place / "text.txt").read_text(), rules=["spread/even:3"]).rules) == [
        "spread/even:3"
    ]
    with pytest.raises(InputError, match="'orders' must be left out, because this model is causal in the schedule"):
        unmask.calibrate(model, (place / "text.txt").read_text(), orders=["random"])


def test_the_page_shows_measured_schedules(calibration, tmp_path):
    from unmask.app import panels
    from unmask.app.data import model as measured

    calibration.save(tmp_path / "c.json")
    view = measured.report(measured.read(str(tmp_path / "c.json")), 0.5, None)
    shown = panels.report(view, "")
    assert "Cost of the measured schedules" in shown
    assert "Loss curves" not in shown
    combs = next(each for each in view.tried if each.name == "whole-comb/even")
    assert combs.evaluations.tolist() == [4, 8]
    assert len(view.rows()) == len(calibration.rules)
    assert view.record() == view.advice.schedule.to_json()
