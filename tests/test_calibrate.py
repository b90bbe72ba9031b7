"""Calibration on known distributions, where everything it estimates is known."""

import copy
import json
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from unmask import InputError, models, order, size  # noqa: E402
from unmask.calibration import Calibration, Groups, losses_of, measure  # noqa: E402
from unmask.calibration.advice import advise, forecast  # noqa: E402
from unmask.calibration.groups import how_many  # noqa: E402
from unmask.distribution import Markov  # noqa: E402
from unmask.evaluate import expected_nll, random_order, replay, replayed_kl  # noqa: E402
from unmask.predict import ExactPredictor, Logits  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402
from unmask.words.own import shortened  # noqa: E402

CHAIN = Markov.sticky(4, 0.85, 32)
TEXTS = torch.from_numpy(CHAIN.sample(400, rng=np.random.default_rng(0)))
PREDICTOR = ExactPredictor(CHAIN)


@pytest.fixture(scope="module")
def calibration():
    orders = {"random": order.Random(), "spread": order.Spread(), "comb-4": order.Comb(4), "comb-8": order.Comb(8)}
    losses = {name: measure(PREDICTOR, kind, TEXTS, rng=1, points=17) for name, kind in orders.items()}
    return Calibration(32, "exact", 400, losses)


def test_the_measured_curve_is_the_true_one(calibration):
    """Within 5 standard errors at every measured place (failure under 1e-4); fixed seed."""
    losses = calibration.losses["random"]
    true = CHAIN.curve().loss[losses.visible]
    assert np.all(np.abs(losses.mean - true) < 5 * losses.error + 1e-9)
    assert losses.visible[0] == 0
    assert losses.visible[-1] == 31


def test_places_are_finer_where_the_curve_bends(calibration):
    visible = calibration.losses["random"].visible
    assert np.diff(visible)[:4].mean() < np.diff(visible)[-4:].mean()


@pytest.mark.parametrize(("name", "steps"), [("comb-4", 8), ("comb-8", 4), ("spread", 8), ("random", 8)])
def test_predicted_and_replayed_likelihoods_agree(calibration, name, steps):
    """On the same texts, within 4 of the combined standard errors; fixed seed."""
    plan = calibration.plan(name, steps)
    fresh = torch.from_numpy(CHAIN.sample(400, rng=np.random.default_rng(7)))
    measured = replay(PREDICTOR, plan.schedule, fresh, rng=torch.Generator().manual_seed(3)).per_sequence
    assert abs(measured.mean - plan.nll) < 4 * np.hypot(measured.standard_error, plan.error)


def test_the_implied_schedule_is_nearly_the_best_for_the_true_curve(calibration):
    curve = CHAIN.curve()
    implied = calibration.plan("random", 6).schedule.size
    assert expected_nll(implied, curve) <= expected_nll(size.Optimal(6, curve), curve) + 0.05


def test_orders_are_ranked_by_predicted_total(calibration):
    ranked = calibration.best(8)
    assert [plan.nll for _, plan in ranked] == sorted(plan.nll for _, plan in ranked)
    assert ranked[0][0] != "random"


def test_a_calibration_survives_its_file(calibration, tmp_path):
    calibration.save(tmp_path / "c.json")
    again = Calibration.load(tmp_path / "c.json")
    mine, theirs = again.plan("comb-4", 8), calibration.plan("comb-4", 8)
    assert mine.sizes.tolist() == theirs.sizes.tolist()
    assert mine.schedule.order == theirs.schedule.order
    assert again.plan("random", 5).nll == pytest.approx(calibration.plan("random", 5).nll, rel=1e-5)
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ValueError, match="must be a calibration file in valid JSON"):
        Calibration.load(tmp_path / "bad.json")
    with pytest.raises(ValueError, match=r"must be the name of an existing file, not '.*'"):
        Calibration.load(tmp_path / "none.json")


def test_cuts_that_were_not_measured_are_refused(calibration):
    with pytest.raises(ValueError, match="A cut at 3 visible tokens was not measured"):
        calibration.predict("comb-4", np.array([3, 29]))
    with pytest.raises(ValueError, match=r"must be at most 8, not .*, because the order comb-4"):
        calibration.plan("comb-4", 9)
    assert calibration.predict("comb-4", np.array([4, 28]))[0] > 0


def test_a_comb_with_even_sizes_is_predicted_from_its_teeth(calibration):
    nll, error, _ = calibration.predict("comb-4", size.Even(8).sizes(32))
    schedule = Schedule(size.Even(8), order.Comb(4))
    measured = replay(PREDICTOR, schedule, TEXTS, rng=torch.Generator().manual_seed(5)).per_sequence
    assert abs(measured.mean - nll) < 4 * np.hypot(measured.standard_error, error)


def test_a_tooth_per_step_is_a_schedule_for_texts_of_any_length(calibration):
    """Measured with 4 segments of 8 tokens; a text of 8 tokens gets 8 steps of one token, and not 2 steps of 4."""
    plan = calibration.plan("comb-4", 8)
    assert plan.schedule == Schedule(size.Even(8), order.Comb())
    assert plan.sizes.tolist() == [4] * 8
    known = [order.Comb(4), plan.schedule.order]
    first, same = (each.arrange(np.arange(32), length=32, steps=8, rng=5).tolist() for each in known)
    assert first == same
    for count, sizes in ((64, [8] * 8), (8, [1] * 8), (5, [1] * 5), (19, [3, 3, 3, 2, 2, 2, 2, 2])):
        assert plan.schedule.size.fitted(count).sizes(count).tolist() == sizes


def test_a_schedule_that_takes_fewer_steps_on_short_texts_says_so(calibration):
    """Steps of several teeth keep the number of segments that was measured: 8 tokens in 4 segments have two teeth."""
    schedule = calibration.plan("comb-4", 4).schedule
    assert schedule.order == order.Comb(4)
    said = "This schedule was made for longer texts. With 8 tokens to fill, it takes 2 steps instead of 4."
    assert shortened(schedule, 8) == said
    assert [shortened(schedule, count) for count in (16, 32, 100)] == [""] * 3
    assert shortened(calibration.plan("comb-4", 8).schedule, 5) == ""
    assert shortened(calibration.plan("spread", 4).schedule, 8) == ""


def test_costs_of_every_number_of_steps_are_those_of_the_plans(calibration):
    for name, most in (("random", 32), ("comb-4", 8), ("spread", 17)):
        costs = calibration.costs(name)
        assert costs.size == most
        for steps in (1, 5, most):
            assert costs[steps - 1] == pytest.approx(calibration.plan(name, steps).nll)


def test_places_that_were_asked_for_are_measured():
    losses = measure(PREDICTOR, order.Spread(), TEXTS[:2], rng=1, points=8, places=[4, 8, 12])
    assert {0, 4, 8, 12, 16, 31} <= set(losses.visible.tolist())
    assert losses.visible.size == 8


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"losses": {"random": {}}}, "'order' of the order 'random' must be present."),
        ({"losses": {"random": 3}}, "'order' of the order 'random' must be present."),
        ({"losses": 3}, "'losses' must be an object, not 3."),
        ({"length": 31}, "'visible' of the order .* must be ascending numbers that start at 0 and stay below 31"),
        ({"length": "32"}, "'length' must be an integer, not '32'."),
        ({"length": 10**400}, "'length' must be at most 9007199254740991, not a number of 4"),
        ({"texts": True}, "'texts' must be an integer, not True."),
        ({"texts": 0}, "'texts' must be at least 1, not 0."),
        ({"model": None}, "'model' must be text, not None."),
        ({"source": 3}, "'source' must be text, not 3."),
        ({"wanted": "random"}, "'wanted' must be a list of names, not 'random'."),
        ({"wanted": [None]}, "'wanted' must be text, not None."),
    ],
)
def test_a_damaged_calibration_is_refused(calibration, change, reason):
    with pytest.raises(InputError, match=f"^The calibration is damaged: {reason}"):
        Calibration.from_json({**calibration.to_json(), **change})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"order": {"name": "combs"}}, "'order' of the order 'random' must be a known name, not 'combs'. Did you mean"),
        (
            {"order": {"name": "confidence"}},
            "'order' of the order 'random' must be a blind order, not a Confidence",
        ),
        ({"order": {"name": "comb", "segments": "x"}}, "'segments' of the order 'random' must be an integer, not 'x'."),
        ({"visible": [0.5]}, "'visible' of the order 'random' must be a list of integers."),
        (
            {"visible": [[0], [1, 2]]},
            "'visible' of the order 'random' must be an array, not rows of different lengths.",
        ),
        ({"visible": []}, "'visible' of the order 'random' must be a list of integers."),
        ({"table": [["a"]]}, "'table' of the order 'random' must hold numbers"),
        ({"table": [[1.0, 2.0]]}, "'table' of the order 'random' must have the shape"),
        ({"error": None}, "'error' of the order 'random' must hold numbers"),
        ({"groups": 3}, "'groups' of the order 'random' must be an object with texts"),
    ],
)
def test_a_damaged_order_is_refused(calibration, change, reason):
    data = calibration.to_json()
    data["losses"] = {"random": {**data["losses"]["random"], **change}}
    with pytest.raises(InputError, match=f"^The calibration is damaged: {reason}"):
        Calibration.from_json(data)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"deviations": "?"}, "'deviations' .* must hold numbers in base64"),
        ({"deviations": None}, "'deviations' .* must hold numbers in base64"),
        ({"deviations": "AAAA"}, "'deviations' .* must have [0-9]* bytes, not 3"),
        ({"count": 10}, "'count' .* must be one of 64, 32, 16, or the number of texts, not 10"),
        ({"count": 500}, "'count' .* must be at most 400, not 500"),
        ({"texts": 1}, "'texts' .* must be at least 2, not 1"),
        ({"scale": 0}, "'scale' .* must be greater than 0, not 0"),
        ({"scale": 1e300}, "'scale' .* must be at most"),
    ],
)
def test_damaged_groups_are_refused(calibration, change, reason):
    data = copy.deepcopy(calibration.to_json())
    data["losses"]["comb-4"]["groups"].update(change)
    with pytest.raises(InputError, match=f"^The calibration is damaged: {reason}"):
        Calibration.from_json(data)


def test_nothing_in_a_calibration_fails_otherwise_than_in_a_sentence(calibration):
    """Every value of a file replaced by everything that JSON can hold."""
    small = replace(calibration, losses={name: calibration.losses[name] for name in ("random", "comb-8")})
    data = json.loads(json.dumps(small.to_json()))
    junk = [None, True, -1, 0.5, 10**30, float("nan"), "", "x", [], [[]], ["x"], {}, {"name": []}, [1, [2]]]

    def places(part, path=()):
        yield path
        for key, value in part.items() if isinstance(part, dict) else enumerate(part[:2]):
            if isinstance(value, dict | list):
                yield from places(value, (*path, key))
            else:
                yield (*path, key)

    said = []
    for path in places(data):
        for value in junk:
            changed = copy.deepcopy(data)
            inner = changed
            for key in path[:-1]:
                inner = inner[key]
            if path:
                inner[path[-1]] = value
            try:
                found = Calibration.from_json(changed if path else value)
                [found.to_json(), advise(found, steps=2)]
            except InputError as error:
                said.append(str(error))
    assert len(said) > 300
    assert all("\n" not in sentence and len(sentence) < 400 for sentence in said)


def test_a_file_that_is_no_calibration_is_refused(tmp_path):
    for content in (b"", b"{", b"\xff\xfe", b"[" * 100_000, b"3", b"[]", b'{"schema": 2, "losses": {}}'):
        (tmp_path / "c.json").write_bytes(content)
        with pytest.raises(InputError, match=r"calibration|text in UTF-8"):
            Calibration.load(tmp_path / "c.json")
    nested = '{"name": "blocks", "length": 1, "order": ' * 400 + "3" + "}" * 400
    part = f'{{"order": {nested}, "visible": [0], "table": [[1]], "error": [1]}}'
    (tmp_path / "c.json").write_text(
        f'{{"schema": 1, "model": "", "length": 1, "texts": 1, "losses": {{"a": {part}}}}}'
    )
    with pytest.raises(InputError, match="The calibration is damaged: 'order' of the order 'a' must be"):
        Calibration.load(tmp_path / "c.json")


# The file


def test_the_errors_of_a_calibration_survive_its_file(calibration, tmp_path):
    """To the three digits of 16 bits; and the file is no larger for more texts than for 64."""
    calibration.save(tmp_path / "c.json")
    again = Calibration.load(tmp_path / "c.json")
    for name in calibration.losses:
        for steps in (1, 3, 8 if name != "comb-8" else 4):
            mine, theirs = calibration.plan(name, steps), again.plan(name, steps)
            assert (mine.exact_error, theirs.exact_error) == (True, True)
            assert theirs.error == pytest.approx(mine.error, rel=1e-3)
    mine, theirs = advise(calibration, target=0.05), advise(again, target=0.05)
    assert theirs.above_error == pytest.approx(mine.above_error, rel=1e-3)
    assert theirs.optimism == pytest.approx(mine.optimism, abs=1e-2)
    sizes = []
    for count in (64, 400):
        losses = {"spread": measure(PREDICTOR, order.Spread(), TEXTS[:count], rng=0, points=17)}
        sizes.append(len(json.dumps(Calibration(32, "", count, losses).to_json())))
    assert sizes[1] == pytest.approx(sizes[0], rel=0.01)
    assert sizes[1] < 17 * 32 * 20 + 64 * 153 * 3


def test_how_texts_differ_is_kept_within_bounds():
    """A whole left-to-right order of 256 tokens in 64 groups, one of 512 in 16 or more, one of 1024 not at all."""
    assert [how_many(4096, n * (n + 1) // 2, n * n) for n in (8, 256, 512, 1024)] == [64, 64, 16, 0]
    assert [how_many(texts, 561, 33 * 256) for texts in (2, 63, 64, 65, 10**6)] == [2, 63, 64, 64, 64]
    # One with few places of very many tokens is small in a file and large while it is measured.
    assert how_many(4096, 561, 33 * 2**16) == 32


def test_groups_join_to_larger_ones():
    """Deviations of texts, joined, are those of the larger groups; a group of texts lies within each larger one."""
    rng = np.random.default_rng(0)
    for texts in (50, 300):
        values = rng.normal(size=(texts, 3))
        values -= values.mean(axis=0)

        def grouped(count, values=values, texts=texts):
            bounds = Groups.bounds(texts, count)
            return np.stack([values[a:b].mean(axis=0) for a, b in pairwise(bounds)])

        first = Groups(texts, grouped(min(texts, 64)).astype(np.float32))
        for count in (32, 16, 8):
            np.testing.assert_allclose(first.joined(count).deviations, grouped(count), atol=1e-6)
            assert first.joined(count).sizes.sum() == texts


def test_a_calibration_of_an_earlier_version_gives_the_error_it_gave():
    """That of the built-in model has no groups: its errors are put together from those of rows, and say so."""
    found = models.calibration_of(models.load("builtin"))
    plan = found.plan("comb-16", 16)
    losses = found.losses["comb-16"]
    assert plan.exact_error is False
    starts = np.cumsum(plan.sizes) - plan.sizes
    assert plan.error == pytest.approx(float(losses.error[np.searchsorted(losses.visible, starts)] @ plan.sizes))
    assert plan.error == pytest.approx(5.0, rel=0.5)
    advice = advise(found, target=0.05)
    assert (advice.texts, advice.optimism, advice.above_error) == (512, None, None)
    assert forecast(found, Schedule(size.TC(16), order.Random())).exact is False
    assert Calibration.from_json(found.to_json()).to_json() == found.to_json()


# Two at once


def test_merged_calibrations_have_the_orders_of_both(calibration):
    parts = calibration.losses
    one = replace(calibration, losses={"random": parts["random"], "comb-4": parts["comb-4"]}, wanted=("random", "a"))
    other = replace(calibration, losses={"comb-4": parts["comb-8"], "spread": parts["spread"]}, wanted=("b", "random"))
    both = one.merged(other)
    assert list(both.losses) == ["random", "comb-4", "spread"]
    assert both.losses["comb-4"] is parts["comb-8"]
    assert both.wanted == ("random", "a", "b")
    assert both.missing == ["a", "b"]
    assert (both.length, both.model, both.texts, both.source) == (32, "exact", 400, "")
    with pytest.raises(InputError, match="Argument 'other' must be a Calibration, not a dict"):
        one.merged({})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"model": "twin"},
            "Argument 'other' must have the model 'exact', not 'twin'. It was measured on another model.",
        ),
        ({"length": 31}, "Argument 'other' must have the length 32, not 31. It was measured on sequences of another"),
        ({"texts": 4}, "Argument 'other' must have 400 texts, not 4. It was measured on other texts."),
        ({"source": "mine"}, "Argument 'other' must have the source '', not 'mine'. It was measured on other texts."),
    ],
)
def test_calibrations_of_different_things_are_not_merged(calibration, change, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        calibration.merged(replace(calibration, **change))


def test_forecasts_are_known_where_something_was_measured(calibration):
    """For the random order the forecast of fixed sizes is the sum over the curve; a comb is found by its teeth."""
    even = Schedule(size.Even(8), order.Random())
    assert forecast(calibration, even)[0] == pytest.approx(calibration.predict("random", size.Even(8).sizes(32))[0])
    tc = Schedule(size.TC(8), order.Random())
    expected = expected_nll(size.TC(8), calibration.random.curve)
    assert forecast(calibration, tc)[0] == pytest.approx(expected)
    comb = Schedule(size.Even(8), order.Comb())
    assert forecast(calibration, comb) == calibration.predict("comb-4", size.Even(8).sizes(32))
    assert forecast(calibration, Schedule(size.Even(16), order.Comb())) is None
    assert forecast(calibration, Schedule(size.TC(8), order.Comb(4))) is None
    assert forecast(calibration, Schedule(size.Even(8), order.Confidence())) is None


def test_advice_needs_an_order_measured_one_by_one(calibration):
    only = Calibration(32, "exact", 400, {"comb-4": calibration.losses["comb-4"]})
    with pytest.raises(ValueError, match="no order that was measured one token at a time"):
        advise(only, target=0.1)
    with pytest.raises(ValueError, match="Advice needs 'target' or 'steps'"):
        advise(calibration)
    assert advise(calibration, target=0.0).plan.nll <= CHAIN.curve().entropy * 1.1


def test_partly_masked_texts_are_calibrated_as_they_are_replayed():
    """In a fixed order, the predicted cost on the measured texts is their exact likelihood."""
    keys = np.random.default_rng(3).permuted(np.tile(np.arange(32), (20, 1)), axis=1)
    masked, texts = torch.from_numpy(keys < 12), TEXTS[:20]
    losses = measure(PREDICTOR, order.LeftToRight(), texts, rng=0, masked=masked, points=12)
    found = Calibration(12, "exact", 20, {"left-to-right": losses})
    for sizes in ([12], [5, 4, 3], [1] * 12):
        schedule = Schedule(size.Explicit(sizes), order.LeftToRight())
        exact = replay(PREDICTOR, schedule, texts, rng=list(range(20)), masked=masked).per_sequence.mean
        assert found.predict("left-to-right", np.array(sizes))[0] == pytest.approx(exact, rel=1e-9)
    everything = torch.ones_like(texts, dtype=torch.bool)
    one, other = (measure(PREDICTOR, order.Comb(8), texts, rng=1, masked=mask) for mask in (None, everything))
    assert np.array_equal(one.table, other.table)
    with pytest.raises(ValueError, match="must hold booleans of shape"):
        measure(PREDICTOR, order.Random(), texts, rng=0, masked=masked[:, 1:])


def test_a_comb_whose_teeth_cannot_be_equal_is_measured_where_they_start():
    """30 tokens in 8 teeth: the first 6 teeth have 4, the last 2 have 3; even sizes are then forecast, and planned."""
    chain = Markov.sticky(3, 0.8, 30)
    texts = torch.from_numpy(chain.sample(64, rng=np.random.default_rng(0)))
    losses = measure(ExactPredictor(chain), order.Comb(4), texts, rng=0)
    assert losses.visible.tolist() == [0, 4, 8, 12, 16, 20, 24, 27]
    calibration = Calibration(30, "", 64, {"comb-4": losses})
    even = Schedule(size.Even(8), order.Comb(4))
    told = forecast(calibration, even)
    assert told is not None
    assert calibration.plan("comb-4", 8).sizes.tolist() == [4, 4, 4, 4, 4, 4, 3, 3]
    assert told[0] == pytest.approx(calibration.plan("comb-4", 8).nll)


# What measurements are given


def constant(value, calls=None):
    def model(tokens):
        if calls is not None:
            calls.append(len(tokens))
        return torch.full((*tokens.shape, 4), value)

    return model


@pytest.mark.parametrize("kind", [order.Random(), order.Comb(8), order.LeftToRight()], ids=repr)
def test_a_model_that_keeps_something_for_each_sequence_is_measured_whole(kind):
    """It is given all texts at every call, whatever the batch; the results are those in batches."""
    calls = []
    whole = Logits(constant(0.0, calls), vocab=4, mask=4, whole=True)
    losses = measure(whole, kind, TEXTS[:5], rng=1, points=4, batch=2)
    nats, spent = random_order(whole, TEXTS[:5], rng=1, points=4, batch=2)
    assert set(calls) == {5}
    assert len(calls) == losses.visible.size + spent
    parts = Logits(constant(0.0), vocab=4, mask=4)
    np.testing.assert_allclose(losses.table, measure(parts, kind, TEXTS[:5], rng=1, points=4, batch=2).table)
    assert torch.equal(nats, random_order(parts, TEXTS[:5], rng=1, points=4, batch=2)[0])


def test_a_seed_gives_what_it_always_gave():
    """Numbers of version 0.1."""
    losses = measure(PREDICTOR, order.Spread(), TEXTS[:20], rng=5, points=5)
    assert losses.visible.tolist() == [0, 4, 8, 16, 31]
    assert losses.table.sum(axis=1).tolist() == pytest.approx(
        [44.3614195558365, 21.81460859835952, 11.63591820565182, 4.6876112059938055, 0.12893347695955254], rel=1e-12
    )
    assert losses.error[1:].tolist() == pytest.approx(
        [0.05978357638774578, 0.05516063811672002, 0.03552602352376675, 0.06036113720937579], rel=1e-12
    )
    nats, _ = random_order(PREDICTOR, TEXTS[:4], rng=5, points=5)
    assert nats.tolist() == pytest.approx(
        [30.70179777627881, 14.836914266052524, 20.947169523132636, 23.052960747858364], rel=1e-12
    )


def measured(rng):
    return measure(PREDICTOR, order.Random(), TEXTS[:4], rng=rng, points=4).table


def one_by_one(rng):
    return random_order(PREDICTOR, TEXTS[:4], rng=rng, points=4)[0].numpy()


def estimated(rng):
    estimate = replayed_kl(Schedule(size.Even(4), order.Random()), CHAIN, 4, rng=rng)
    return np.array([estimate.mean, estimate.standard_error])


@pytest.mark.parametrize("what", [measured, one_by_one, estimated])
def test_randomness_is_a_seed_or_a_generator_of_numpy_or_torch(what):
    for make in (
        lambda seed: seed,
        lambda seed: np.int64(seed),
        np.random.default_rng,
        lambda seed: torch.Generator().manual_seed(seed),
    ):
        assert np.array_equal(what(make(7)), what(make(7)))
        assert not np.array_equal(what(make(7)), what(make(8)))
    source = np.random.default_rng(7)
    assert not np.array_equal(what(source), what(source))
    for wrong in (None, True, 1.0, "7", np.random, [1, 2]):
        with pytest.raises(InputError, match="Argument 'rng' must be a seed, a torch generator or a numpy generator"):
            what(wrong)
    for wrong in (-1, 2**64):
        with pytest.raises(InputError, match="Argument 'rng' must be at"):
            what(wrong)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"tokens": TEXTS.numpy()}, "'tokens' must be sequences or a tensor of token ids, not an ndarray"),
        ({"tokens": TEXTS[:1]}, "'tokens' must hold token ids of shape .count, length., with at least 2 texts, not"),
        ({"tokens": TEXTS[0]}, "'tokens' must hold token ids of shape"),
        ({"tokens": TEXTS.double()}, "'tokens' must hold token ids of shape"),
        ({"tokens": TEXTS.to(torch.complex64)}, "'tokens' must hold token ids of shape"),
        ({"tokens": TEXTS + 1}, "'tokens' must hold token ids from 0 to 3"),
        ({"tokens": TEXTS[:, :0]}, "'tokens' must have at least one position to fill in each text"),
        ({"predictor": lambda tokens: tokens}, "'predictor' must be a mask predictor, not a function. Wrap a model"),
        ({"order": order.Confidence()}, "'order' must be a blind order, not Confidence"),
        ({"order": "random"}, "'order' must be a blind order, not 'random'"),
        ({"points": 0}, "'points' must be at least 1, not 0"),
        ({"points": 2.5}, "'points' must be an integer, not 2.5"),
        ({"points": "all"}, "'points' must be an integer, not 'all'"),
        ({"points": None}, "'points' must be an integer, not None"),
        ({"points": True}, "'points' must be an integer, not True"),
        ({"places": [32]}, "'places' must be at most 31, not 32"),
        ({"places": [-1]}, "'places' must be at least 0, not -1"),
        ({"places": [0.5]}, "'places' must be an integer, not 0.5"),
        ({"places": 4}, "'places' must be a list of integers, not 4"),
        ({"steps": 0}, "'steps' must be at least 1, not 0"),
        ({"batch": 0}, "'batch' must be at least 1, not 0"),
        ({"batch": None}, "'batch' must be an integer, not None"),
        ({"masked": [True]}, "'masked' must be a tensor of booleans, not a list"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_a_sentence(change, sentence):
    given = {"predictor": PREDICTOR, "order": order.Random(), "tokens": TEXTS, "rng": 0, **change}
    with pytest.raises(InputError, match=f"^Argument {sentence}"):
        measure(given.pop("predictor"), given.pop("order"), given.pop("tokens"), **given)


def test_a_model_that_keeps_everything_is_asked_for_a_batch_that_makes_sense():
    whole = Logits(constant(0.0), vocab=4, mask=4, whole=True)
    with pytest.raises(InputError, match="Argument 'batch' must be at least 1, not 0"):
        measure(whole, order.Random(), TEXTS[:4], rng=0, batch=0)


def test_levels_are_refused_what_makes_no_sense():
    for points in (0, 2.5, None):
        with pytest.raises(InputError, match="Argument 'points' must be"):
            random_order(PREDICTOR, TEXTS[:4], rng=0, points=points)
    with pytest.raises(InputError, match="Argument 'tokens' must have at least one position"):
        random_order(PREDICTOR, TEXTS[:4, :0], rng=0)


@pytest.mark.parametrize("kind", [order.Random(), order.Comb(2), order.LeftToRight()], ids=repr)
def test_a_model_whose_losses_are_not_numbers_is_refused(kind):
    """Whatever is measured of it, also if only some of its losses are none, or infinite."""
    texts = TEXTS[:4, :6]
    broken = Logits(constant(torch.nan), vocab=4, mask=4)
    rare = Logits(lambda tokens: torch.where(tokens[..., None] == 4, 0.0, torch.nan).expand(-1, -1, 4), 4, 4)
    late = Logits(lambda tokens: torch.full((*tokens.shape, 4), torch.nan if (tokens < 4).any() else 0.0), 4, 4)
    with pytest.raises(InputError, match=r"^The model gives losses that are not numbers; nothing can be measured"):
        measure(broken, kind, texts, rng=0)
    with pytest.raises(InputError, match="not numbers"):
        measure(late, kind, texts, rng=0)
    assert np.isfinite(measure(rare, kind, texts, rng=0).table).all()  # what nobody asks for is not looked at
    for each in (broken, late):
        with pytest.raises(InputError, match=r"^The model gives losses that are not numbers"):
            random_order(each, texts, rng=0, points=4)
        with pytest.raises(InputError, match="logits that are not numbers"):
            replay(each, Schedule(size.Even(3), kind), texts, rng=[0] * 4)
    excluding = Logits(lambda tokens: torch.tensor([0.0, 0.0, 0.0, -torch.inf]).expand(*tokens.shape, 4), 4, 4)
    with pytest.raises(InputError, match=r"^The model gives probability 0 to a token of the texts, so its loss is"):
        measure(excluding, kind, texts % 2 + 2, rng=0)


# What the numbers say


def losses(kind, visible, mean, error, length):
    table = np.where(np.arange(length) >= np.array(visible)[:, None], np.array(mean)[:, None], 0.0)
    return losses_of(kind, np.array(visible), table, np.array(error, dtype=np.float64))


def test_a_curve_that_rises_is_made_flat_by_the_inverse_variances():
    """Means 1 and 2 with errors 1 and 2 at two places: (1 · 1 + 2 · 1/4) / (1 + 1/4) = 1.2."""
    found = losses(order.Random(), [0, 1, 3], [3.0, 1.0, 2.0], [1.0, 1.0, 2.0], 4)
    assert found.curve.loss.tolist() == pytest.approx([3.0, 1.2, 1.2, 1.2])


def test_the_error_of_places_that_were_pooled_is_that_of_their_weighted_mean():
    """Deviations of the two places count 4 : 1, as their means do; what lies between two places counts for both."""
    found = losses(order.Random(), [0, 1, 3], [3.0, 1.0, 2.0], [1.0, 1.0, 2.0], 4)
    rng = np.random.default_rng(0)
    deviations = rng.normal(size=(5, 3))
    deviations -= deviations.mean(axis=0)
    kept = replace(found, groups=Groups(5, deviations.astype(np.float32)))
    # One token at 0, three at 1: cost 3 + 3 · 1.2; its deviation x_0 + 3 (0.8 x_1 + 0.2 x_2).
    along = deviations @ [1.0, 2.4, 0.6]
    assert kept.cost([1, 3]) == (pytest.approx(6.6), pytest.approx(along.std(ddof=1) / np.sqrt(5), rel=1e-5), True)
    falling = replace(losses(order.Random(), [0, 1, 3], [3.0, 2.0, 1.0], [1.0, 1.0, 2.0], 4), groups=kept.groups)
    # Two tokens at 0, two at 2, half-way between 1 and 3: nothing is pooled.
    along = deviations @ [2.0, 1.0, 1.0]
    assert falling.cost([2, 2]) == (pytest.approx(9.0), pytest.approx(along.std(ddof=1) / np.sqrt(5), rel=1e-5), True)


def test_steps_that_reveal_nothing_cost_nothing(calibration):
    """Seven steps of up to 5 tokens fill 32 in seven; nine steps of up to 4 in eight, and the last reveals nothing."""
    sizes = size.Ceil(9)
    assert sizes.sizes(32).tolist() == [4] * 8 + [0]
    assert calibration.losses["comb-4"].forecast(sizes) == calibration.predict("comb-4", [4] * 8)
    assert forecast(calibration, Schedule(sizes, order.Comb(4))) is not None


@pytest.mark.parametrize("sizes", [[4.0] * 8, [31], [16, 0, 16], [40, -8], [[32]], [], "32", None])
def test_sizes_that_fill_nothing_are_refused(calibration, sizes):
    for name in ("random", "comb-4"):
        with pytest.raises(InputError, match="Argument 'sizes' must"):
            calibration.predict(name, sizes)


def test_the_runner_up_is_the_second_best_order(calibration):
    advice = advise(calibration, steps=4)
    ranked = calibration.best(4)
    assert len(ranked) == 4
    assert (advice.order, advice.runner_up[0]) == (ranked[0][0], ranked[1][0])
    assert advice.runner_up[1].nll == ranked[1][1].nll
    assert advice.plan.nll < advice.runner_up[1].nll < ranked[2][1].nll < ranked[3][1].nll


def test_levels_count_as_often_as_their_stratum_is_wide():
    """Three tokens, two levels: 0, and 1 or 2, which stands for both. A masked token costs as many nats as are visible.

    So a text costs 2 or 4 nats, and 3 on average, as 0 + 1 + 2.
    """

    def model(tokens):
        visible = (tokens != 2).sum(dim=1)[:, None, None].expand(-1, 3, 1).double()
        # The token 0 has the probability exp(−visible).
        return torch.cat([-visible, torch.log(-torch.expm1(-visible))], dim=-1)

    nats, _ = random_order(Logits(model, 2, 2), torch.zeros((1000, 3), dtype=torch.int64), rng=0, points=2)
    assert set(nats.round(decimals=9).tolist()) == {2.0, 4.0}
    assert abs(nats.mean() - 3) < 5 / 1000**0.5  # 5 standard errors: fails by chance in 6e-7


def test_texts_without_any_loss_are_left_out_like_others():
    """The last token costs something on one text only: without it nothing, though three digits say a little less."""
    rng = np.random.default_rng(0)
    deviations = rng.normal(size=(8, 3)) * [0.1, 0.1, 0.0]
    deviations[:, 2] = [0.2335, *[-0.2335 / 7] * 7]  # 7/30 and a little more
    deviations -= deviations.mean(axis=0)
    found = losses(order.Random(), [0, 1, 3], [3.0, 2.0, 0.1 / 3], [1.0, 1.0, 2.0], 4)
    kept = Calibration(4, "", 8, {"random": replace(found, groups=Groups(8, deviations.astype(np.float32)))})
    again = Calibration.from_json(json.loads(json.dumps(kept.to_json())))
    for each in (kept, again):
        assert abs(advise(each, target=0.1).optimism) < 1


# What needs torch


def test_reading_and_advising_need_no_torch():
    code = (
        "import sys, unmask; unmask.advise, unmask.Calibration, unmask.calibration.Losses, unmask.calibration.Forecast;"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
