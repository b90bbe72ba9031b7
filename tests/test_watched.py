"""The tab *Watch* where tokens may be taken back: what it shows at every step is what the sampler did."""

import json
import math
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

pytest.importorskip("torch")

import torch

from unmask import InputError, models
from unmask.app import glossary, player
from unmask.app.data import presets
from unmask.app.data import watch as runs
from unmask.calibration import advise
from unmask.sample import Sampler, draw_for
from unmask.words.revisions import REVISION_WORDS, order_for, revised
from unmask.words.schedules import build
from unmask.words.sentences import visible

TEXT = "the ________________ of the ________ was"
PLAIN = runs.Side("random", "even", 2)
WORDS = (*REVISION_WORDS, "cap:0.5", "gibbs:4", "edit:0", "verify:0.9")


@pytest.fixture(scope="module")
def model():
    return models.load("builtin")


def side(word, steps=8):
    return runs.Side(order_for(word) or "random", "even", steps, None, word)


def watched(model, word, text=TEXT):
    return [left for left, _ in runs.watch(model, text, (side(word), PLAIN), seed=5)]


def record(model, word):
    start = model.codec.prompt(TEXT, model.predictor.mask)
    count = start.count(model.predictor.mask)
    schedule = revised(build(order_for(word) or "random", "even", 8, count).schedule, word)
    return Sampler(model.predictor, schedule).run(torch.tensor([start]), rng=[5])


def at(run, step):
    """The text after so many steps, as the player of the page puts it together."""
    shown = ""
    for piece, revealed, versions in zip(run.pieces, run.revealed, run.revised.versions, strict=True):
        found = [text for when, text in versions if when < step]
        last = piece if revealed == -1 else found[-1] if found else None
        shown += "_" if last is None else last
    return shown


@pytest.mark.parametrize("word", WORDS)
def test_every_step_shows_the_versions_of_that_step(model, word):
    run, trace = watched(model, word)[-1], record(model, word)
    frames = [lines[0] for lines in trace.frames(lambda ids: visible(model.codec.decode(ids)))]
    assert [at(run, step) for step in range(len(frames))] == frames
    assert at(run, run.steps) == "".join(run.pieces)


@pytest.mark.parametrize("word", WORDS)
def test_counts_are_those_of_the_record(model, word):
    frames, trace = watched(model, word), record(model, word)
    for earlier, later in pairwise(frames):
        assert later.revised.standings[: earlier.steps] == earlier.revised.standings
    run = frames[-1]
    last = run.revised.standings[-1]
    assert run.evaluations == last.evaluations == trace.evaluations[0]
    assert (last.taken, last.rewritten) == (trace.versions.taken, trace.versions.rewritten)
    assert len(run.valid) == len(run.revised.standings) == run.steps
    # All tokens stand in the end, and before it those that were given and not taken back.
    assert run.valid[-1] == 24
    assert list(run.valid) == [24 - at(run, step).count("_") for step in range(1, run.steps + 1)]


@pytest.mark.parametrize("word", WORDS)
def test_a_run_is_over_when_no_step_can_follow(model, word):
    """A full text is no sign of it, since what is there may still be changed."""
    finished = [run.finished for run in watched(model, word)]
    assert finished == [False] * (len(finished) - 1) + [True]


def test_a_text_that_may_be_taken_back_has_no_likelihood_and_the_page_says_so(model):
    left, right = list(runs.watch(model, TEXT, (side("cap:0.5"), PLAIN), seed=5))[-1]
    assert left.nll == ()
    page = ET.fromstring(player.watched((left, right)))
    said = ["".join(section.itertext()) for section in page.iter("section")]
    assert "no exact likelihood" in said[0]
    assert "bits per token" not in said[0]
    assert f"{left.revised.standings[-1].taken} taken back" in said[0]
    assert "no exact likelihood" not in said[1]
    assert "bits per token" in said[1]
    # What the player reads is all there is to know of a token.
    tokens = [token for token in next(page.iter("section")).iter() if token.get("data-step")]
    read = [tuple(map(tuple, json.loads(token.get("data-versions", "[]")))) for token in tokens]
    assert tuple(read) == left.revised.versions
    assert any(text is None for versions in read for _, text in versions)


def test_a_version_cannot_become_markup():
    hostile = "<img src=x onerror=alert(1)>\"'"
    more = runs.Revised(
        hostile, hostile, (((0, hostile), (1, None)),), (runs.Standing(1, 1, 1), runs.Standing(2, 0, 0, 1))
    )
    run = runs.Run(hostile, ("",), (-3,), (False,), (1, 0), (1, 0), (1, 0), (), None, more)
    shown = player.watched((run, run))
    assert "<img" not in shown
    token = next(each for each in ET.fromstring(shown).iter("span") if each.get("data-versions"))
    assert json.loads(token.get("data-versions")) == [[0, hostile], [1, None]]


@pytest.mark.parametrize(
    ("order", "size", "word", "field", "sentence"),
    [
        ("random", "even", "planner", "left order", "must be confidence for the revision planner, not 'random'."),
        ("random", "even", "cap:x", "left revision", "must have a number after the colon"),
        ("random", "even", "cap:2", "left revision", "'cap:2' is not: its chance must be at most 1, not 2."),
        ("random", "even", "capp", "left revision", "must be a known name, not 'capp'. Did you mean 'cap'?"),
        ("random", "even", "loop", "left revision", "Try loop:16."),
        (
            "random",
            "threshold:0.5",
            "cap",
            "left size",
            "not look at predictions with this revision",
        ),
        (
            "spaced-4/confidence",
            "even",
            "cap",
            "left revision",
            "must not be used with an order that keeps positions apart",
        ),
    ],
)
def test_what_does_not_go_together_is_said_at_its_field(model, order, size, word, field, sentence):
    with pytest.raises(InputError, match=re.escape(sentence)) as caught:
        next(runs.watch(model, "", (runs.Side(order, size, 8, None, word), PLAIN), seed=0))
    assert caught.value.argument == field
    form = tab_of(model).form
    answers = dict(zip(form.places, form.answers(caught.value), strict=True))
    assert [name for name, words in answers.items() if words] == [field]


def test_the_bits_of_the_tokens_add_up_to_the_likelihood(model):
    left, right = list(runs.watch(model, TEXT, (side("cap:0.5"), PLAIN), seed=5))[-1]
    assert sum(bits for each in right.surprise for bits in each) * math.log(2) == pytest.approx(right.nll[-1])
    assert [len(each) for each in right.surprise] == [int(step >= 0) for step in right.revealed]
    assert [len(each) for each in left.surprise] == [len(each) for each in left.revised.versions]
    page = ET.fromstring(player.watched((left, right)))
    said = [token.get("data-bits") for token in list(page.iter("section"))[1].iter() if token.get("data-bits")]
    assert said == [f"{each[0]:.2f}" for each in right.surprise if each]


@pytest.mark.parametrize(("temperature", "top_p"), [(0, 1), (0.5, 1), (1, 0.7)])
def test_temperature_and_top_p_are_those_of_the_sampler(model, temperature, top_p):
    *_, (left, _) = runs.watch(model, TEXT, (PLAIN, PLAIN), seed=5, temperature=temperature, top_p=top_p)
    start = torch.tensor([model.codec.prompt(TEXT, model.predictor.mask)])
    sampler = Sampler(model.predictor, build("random", "even", 2, 24).schedule, draw_for(temperature, top_p=top_p))
    assert "".join(left.pieces) == model.codec.decode(sampler.run(start, rng=[5]).tokens[0].tolist())


@pytest.mark.parametrize(
    ("how", "field", "sentence"),
    [
        ({"temperature": -1}, "temperature", "must be at least 0, not -1."),
        ({"temperature": 11}, "temperature", "must be at most 10, not 11."),
        ({"top_p": 0}, "top_p", "must be greater than 0, not 0."),
        ({"top_p": 1.5}, "top_p", "must be at most 1, not 1.5."),
    ],
)
def test_a_draw_that_is_not_possible_is_said_at_its_field(model, how, field, sentence):
    with pytest.raises(InputError, match=re.escape(sentence)) as caught:
        next(runs.watch(model, TEXT, (PLAIN, PLAIN), seed=5, **how))
    assert caught.value.argument == field
    form = tab_of(model).form
    answers = dict(zip(form.places, form.answers(caught.value), strict=True))
    assert [name for name, words in answers.items() if words] == [field.replace("_", "-")]


def test_more_steps_than_tokens_become_as_many_and_a_note_says_so(model):
    few = runs.Side("random", "even", 30)
    first, *_ = runs.watch(model, "the ____", (few, PLAIN), seed=5)
    assert first[0].planned == 4
    assert first[0].note == "There are only 4 tokens to fill, so 30 steps became 4."
    assert first[1].note == ""
    assert first[0].note in player.watched(first)
    # One of each is one.
    (one, _), *_ = runs.watch(model, "the _", (few, PLAIN), seed=5)
    assert one.note == "There is only 1 token to fill, so 30 steps became 1."
    assert one.title.endswith("random order, even sizes, 1 step")


@pytest.mark.parametrize("name", ["builtin", "causal"])
def test_the_advised_preset_is_the_schedule_of_the_advice(name):
    writer = models.load(name)
    calibration = models.calibration_of(writer)
    found = presets.preset(presets.ADVISED, calibration)
    wanted = advise(calibration, target=presets.TARGET)
    built = build(found.order, found.size, found.steps, 256, calibration)
    assert built.schedule == wanted.schedule
    assert presets.matching(found.order, found.size, found.steps, None, calibration) == presets.ADVISED
    # Without a calibration there is none, and its size says so.
    assert presets.ADVISED not in presets.presets(None)
    if found.size == runs.MEASURED_SIZE:
        with pytest.raises(InputError, match="must be one that needs no calibration"):
            next(runs.watch(writer, "", (runs.Side(found.order, found.size, 16), PLAIN), seed=0))
        choice = runs.Side("halton", found.size, 16, writer, None, calibration)
        with pytest.raises(
            InputError, match=r"must suit the order halton, but 'optimal' does not\. 'optimal' is for orders"
        ):
            next(runs.watch(writer, "", (choice, PLAIN), seed=0))


def test_every_preset_is_a_schedule_and_its_names_have_sentences(model):
    for name in presets.presets(None):
        each = presets.preset(name, None)
        assert build(each.order, each.size, each.steps, 256).schedule
        assert presets.matching(each.order, each.size, each.steps, each.revision, None) == name
        assert each.sentence.endswith(".")
        words = glossary.about("builtin", each.order, each.size, each.revision)
        assert words.count("<dt>") == 3 + (each.revision is not None)
    assert glossary.about("<b>", "", None, "none") == ""
    assert "Another order" in glossary.about("builtin", "spaced-4/comb-16", "even", "none")


def tab_of(model):
    gr = pytest.importorskip("gradio", reason="the page needs gradio: pip install 'unmask[app]'")
    from unmask.app.tabs import watch

    with gr.Blocks():
        return watch.build(model)


def link_of(tab, **values):
    usual = {name: field.value for name, field in tab.form.fields.items()}
    (shown,) = tab.refresh("1", *{**usual, **values}.values())
    return re.search('href="(.*)"', shown)[1].replace("&amp;", "&")


def test_a_link_says_the_revision_and_is_as_before_where_there_is_none(model):
    from urllib.parse import parse_qsl

    from unmask.app import page

    tab = tab_of(model)
    plain = link_of(tab)
    assert plain == (
        "?tab=watch&text=&seed=3&left+model=causal&left+order=whole-comb&left+size=even&left+steps=16"
        "&right+model=builtin&right+order=comb&right+size=even&right+steps=16"
    )
    assert link_of(tab, temperature=1.0, **{"top-p": 1}) == plain
    assert link_of(tab, temperature=0.7, **{"top-p": 0.9}) == plain + "&temperature=0.7&top-p=0.9"
    revising = link_of(tab, **{"right revision": "cap:0.1"})
    assert revising == plain + "&right+revision=cap:0.1"
    for address, right in ((plain, "none"), (revising, "cap:0.1")):
        _, problems, *values = page._opened(dict(parse_qsl(address[1:], keep_blank_values=True)), {"watch": tab})
        found = dict(zip(tab.form.fields, values, strict=True))
        assert problems == ""
        assert (found["left revision"], found["right revision"]) == ("none", right)
