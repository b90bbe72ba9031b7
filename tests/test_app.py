"""The explorer without a browser: what the page shows is what the library computes."""

import dataclasses
import inspect
import json
import math
import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from unmask import InputError, evaluate, gauge, size
from unmask.app import chart, lines, links, outcomes, panels, player
from unmask.app.axis import Axis
from unmask.app.data import distributions as tradeoffs
from unmask.app.data import results
from unmask.app.data import schedules as laws
from unmask.distribution import Markov
from unmask.names import DISTRIBUTIONS
from unmask.words import data
from unmask.words.schedules import BLIND_SIZES as ALL_SIZES
from unmask.words.schedules import FREE_SIZES as SIZES

NAMES = list(SIZES)


def test_a_law_is_that_of_its_schedule():
    (law,) = laws.compare(64, 8, ["tc"]).laws
    schedule = size.TC(8)
    assert np.array_equal(law.mean_sizes, schedule.mean_sizes(64))
    assert np.array_equal(law.cuts, schedule.cut_probabilities(64))
    assert np.array_equal(law.overhang, schedule.overhang(64))
    assert law.guarantees["tc"] == pytest.approx(schedule.coefficient(64))
    assert law.guarantees["dtc"] == gauge.guarantee(schedule.overhang(64), gauge.dtc(64))


@pytest.mark.parametrize(("length", "steps"), [(2, 1), (2, 2), (17, 5), (64, 64), (300, 7)])
def test_no_schedule_guarantees_more_than_the_best_possible(length, steps):
    view = laws.compare(length, steps, NAMES)
    for law in view.laws:
        assert law.mean_sizes.sum() == pytest.approx(length)
        for key, least in view.least.items():
            assert law.guarantees[key] >= least * (1 - 1e-9)


def test_sizes_are_shown_in_one_order_whatever_was_clicked_first():
    assert [law.name for law in laws.compare(16, 4, ["tc", "even"]).laws] == ["even", "tc"]


@pytest.mark.parametrize(
    ("length", "steps", "names", "sentence"),
    [
        (1, 1, ["even"], "Argument 'length' must be at least 2, not 1."),
        (5000, 1, ["even"], "Argument 'length' must be at most 4096, not 5000."),
        (8, 9, ["even"], "Argument 'steps' must be at most the length 8, not 9."),
        (8, 0, ["even"], "Argument 'steps' must be at least 1, not 0."),
        (8, None, ["even"], "Argument 'steps' must be an integer, not None."),
        (8, 2, [], "Argument 'size' must be at least one schedule."),
        (8, 2, ["evn"], "Did you mean 'even'?"),
    ],
)
def test_a_bad_value_is_one_sentence(length, steps, names, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        laws.compare(length, steps, names)


def test_the_downloads_hold_what_is_shown():
    view = laws.compare(32, 4, ["even", "tc"])
    record = json.loads(links.as_json(view.record()))
    assert record["schedules"][1]["overhang"] == size.TC(4).overhang(32).tolist()
    lines = links.as_csv(view.rows()).splitlines()
    assert lines[0] == "size,quantity,index,value"
    assert len(lines) == 1 + 2 * (4 + 31 + 31 + 4)
    assert "even,mean_size,1,8.0" in lines


def last(family, values, names):
    *_, stage = tradeoffs.compare(family, values, names)
    return stage.view


MARKOV = {"length": 64, "alphabet": 2, "stay": 0.9}


def test_errors_are_the_exact_expected_kl():
    curve = Markov.sticky(2, 0.9, 64).curve()
    for each in last("markov", MARKOV, ["even", "minimax-tc", "optimal"]).errors:
        families = {"even": size.Even, "minimax-tc": lambda steps: size.Minimax(steps, gauge.tc)}
        families["optimal"] = lambda steps: size.Optimal(steps, curve)
        assert each.kl == pytest.approx(evaluate.tradeoff(families[each.name], curve, each.steps))
        assert each.steps[-1] == 64
        assert abs(each.kl[-1]) < 1e-9


@pytest.mark.parametrize("family", list(DISTRIBUTIONS))
def test_no_error_is_above_its_promise(family):
    values = {"length": 16, "dimension": 12, "alphabet": 16, "stay": 0.8, "bias": 0.2}
    values["alphabet"] = 2 if family in ("parity", "linear", "markov") else 16
    for each in last(family, values, ALL_SIZES).errors:
        known = np.isfinite(each.bound)
        assert np.all(each.kl[known] <= each.bound[known] * (1 + 1e-9) + 1e-9), each.name


def test_schedules_arrive_one_by_one():
    stages = [stage for stage in tradeoffs.compare("markov", MARKOV, ["even", "tc"]) if stage.view is not None]
    assert [len(stage.view.errors) for stage in stages] == [0, 1, 2]
    assert [(stage.done, stage.whole) for stage in stages] == [(0, 2), (1, 2), (2, 2)]


def test_long_work_tells_how_far_it_is_before_and_while_the_curve_is_estimated():
    values = {"length": 64, "dimension": 60, "alphabet": 2, "draws": 9, "seed": 17}
    stages = list(tradeoffs.compare("linear", values, ["even"]))
    assert stages[0].words == "Preparing the distribution"
    assert [(stage.done, stage.whole) for stage in stages[1:5]] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [stage.view for stage in stages[:5]] == [None] * 5
    # The next time it comes from memory, and what is remembered is what the command line computes.
    assert next(tradeoffs.compare("linear", values, ["even"])).view.known is stages[-1].view.known
    options = {"dimension": 60, "alphabet": 2}
    said = data.Said(64, "linear", options, estimate_curve=9)
    known = said.read(rng=np.random.default_rng(17))
    assert np.array_equal(stages[-1].view.known.curve.loss, known.curve.loss)
    assert stages[-1].view.known.title == known.title


def test_an_estimated_error_has_its_standard_error_wherever_it_is_shown():
    values = {"length": 64, "dimension": 60, "alphabet": 2, "draws": 8, "seed": 1}
    view = last("linear", values, ["even"])
    (each,) = view.errors
    place = each.steps.tolist().index(8)
    spread = view.known.standard_error(size.Even(8))
    assert view.rows()[place]["curve_error"] == each.error[place] == spread
    assert "curve_error" in links.as_csv(view.rows()).splitlines()[0]
    cells = ["".join(cell.itertext()) for cell in parsed(panels.errors(view)).iter("td")]
    assert cells[0] == f"{each.kl[place]:#.4g} ± {spread:.2g}"
    assert "curve_error" not in last("markov", MARKOV, ["even"]).rows()[0]


@pytest.mark.parametrize(
    ("family", "values", "sentence"),
    [
        ("markov", {**MARKOV, "stay": 1.5}, "stay"),
        ("markov", {**MARKOV, "stay": ""}, "Distribution 'markov' needs 'stay' as well."),
        ("markov", {**MARKOV, "length": 9999}, "Argument 'length' must be at most 2048, not 9999."),
        ("reed-solomon", {"length": 8, "dimension": 9, "alphabet": 8}, "dimension"),
        ("linear", {"length": 64, "dimension": 60, "alphabet": 2}, "Use 'estimate_curve' to estimate it."),
        ("mixture", {"length": 8, "bias": -1}, "bias"),
        ("linear", {"length": 8, "dimension": 4, "alphabet": 2, "draws": 201}, "'draws' must be at most 200, not 201."),
        ("markov", {**MARKOV, "alphabet": 10_000_000}, "Argument 'alphabet' must be at most 64, not 10000000."),
        ("parity", {"length": 8, "alphabet": 10_000_000}, "Argument 'alphabet' must be at most 4096, not 10000000."),
        ("parity", {"length": 8, "seed": 10**20}, "Argument 'seed' must be at most 9007199254740992, not 1"),
    ],
)
def test_a_bad_parameter_is_one_sentence(family, values, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        last(family, values, ["even"])


def test_an_estimated_curve_says_so():
    values = {"length": 64, "dimension": 60, "alphabet": 2, "draws": 8, "seed": 1}
    shown = panels.errors(last("linear", values, ["even"]))
    assert "The curve is estimated from 8 draws" in shown


# Pictures


def parsed(html):
    return ET.fromstring(f"<page>{html}</page>")


def assert_described(page):
    """Every picture has a name and a sentence with numbers, and refers to both."""
    words = {node.get("id"): "".join(node.itertext()) for node in page.iter() if node.get("id")}
    pictures = [node for node in page.iter("svg") if node.get("role") == "img"]
    assert pictures
    for picture in pictures:
        assert words[picture.get("aria-labelledby")]
        sentence = words[picture.get("aria-describedby")]
        assert sentence.endswith(".")
        assert re.search(r"\d", sentence)
    assert len(words) == len([node for node in page.iter() if node.get("id")])


@pytest.mark.parametrize(("length", "steps"), [(2, 1), (3, 3), (256, 16), (4096, 512)])
def test_schedules_are_well_formed_pictures_with_sentences(length, steps):
    page = parsed(panels.schedules(laws.compare(length, steps, NAMES), "min"))
    assert_described(page)
    assert len(list(page.iter("figure"))) == 3
    for path in page.iter("path"):
        assert "nan" not in path.get("d")
        assert "inf" not in path.get("d")


def test_the_table_of_guarantees_has_the_numbers_of_the_laws():
    view = laws.compare(64, 8, ["even", "tc"])
    cells = ["".join(cell.itertext()) for cell in parsed(panels.guarantees(view)).iter("td")]
    assert cells[0] == f"{view.laws[0].guarantees['tc']:#.4g}"
    assert float(cells[5]) == pytest.approx(size.TC(8).coefficient(64), rel=1e-3)


def test_every_smallest_guarantee_is_bold_and_the_caption_says_so():
    law = laws.law("even", 64, 8)
    near = {key: value * (1 + 1e-12) for key, value in law.guarantees.items()}
    same = dataclasses.replace(law, name="ceil", guarantees=near)
    page = parsed(panels.guarantees(laws.SizeLaws(64, 8, (law, same), laws.compare(64, 8, ["even"]).least)))
    assert len(list(page.iter("b"))) == 1 + 8  # the title, and both rows
    words = "".join(page.find("p").itertext())
    assert "The smallest factor of each column is in bold." in words
    assert "times TC for tc, and times DTC for dtc" in words


def test_errors_are_well_formed_pictures_with_sentences():
    shown = last("parity", {"length": 16}, ["even", "tc", "log-linear"])
    page = parsed(panels.errors(shown))
    assert_described(page)


def test_every_kind_of_line_is_a_class_of_its_own_without_flags():
    kinds = [each for each in vars(lines).values() if inspect.isclass(each) and issubclass(each, lines.Line)]
    assert len(kinds) >= 6
    for kind in kinds:
        assert inspect.isabstract(kind) != getattr(kind, "__final__", False), kind
        assert bool not in inspect.get_annotations(kind).values(), kind


def test_words_from_outside_cannot_become_markup():
    line = lines.Joined("<b>", np.array([1.0, 2.0]), np.array([1.0, 2.0]), 0)
    shown = chart.html(chart.Chart("key", "<i>", "a < b", "x", "<u>", [line]))
    assert "<i>" not in shown
    assert "<u>" not in shown
    assert "&lt;b&gt;" in shown


def test_thinning_keeps_the_peaks_and_the_ends():
    rng = np.random.default_rng(0)
    y = rng.random(10_000)
    x, kept = lines.thinned(np.arange(10_000), y)
    assert len(x) < 500
    assert (x[0], x[-1]) == (0, 9999)
    assert (kept.min(), kept.max()) == (y.min(), y.max())
    assert np.all(np.diff(x) > 0)


@pytest.mark.parametrize("logarithmic", [False, True])
@pytest.mark.parametrize(
    "values", [[1.0], [0.5, 0.5], [1e-8, 1e8], [3.0, 3.1], [1.0, 1000.0], [1e-5, 2.9e-4], [2e5, 1.3e6]]
)
def test_axes_have_a_few_ticks_within_reach(values, logarithmic):
    axis = Axis.of(np.array(values), logarithmic)
    assert 1 <= len(axis.ticks) <= 11
    assert all(-1e-9 <= place <= 1 + 1e-9 for place, _ in axis.ticks)
    # A label is the number at its place, and no other tick has it.
    said = np.array([float(label.replace(",", "")) for _, label in axis.ticks])
    assert len(np.unique(said)) == said.size
    there = axis.low + np.array([place for place, _ in axis.ticks]) * (axis.high - axis.low)
    assert said == pytest.approx(10**there if logarithmic else there, rel=1e-5, abs=1e-12)


# Links


TABS = {
    "schedules": {"length": links.whole(least=2, most=4096), "size": links.some_of(NAMES)},
    "watch": {"text": links.words, "left order": links.words, "seed": links.whole()},
    "model": {"target": links.optional(links.real(least=0)), "steps": links.optional(links.whole())},
}


@pytest.mark.parametrize(
    ("tab", "values"),
    [
        ("watch", {"text": "the ____ & <b> of é", "left order": "comb-16", "seed": 7}),
        ("watch", {"text": "", "left order": "comb", "seed": 2**53}),
        ("model", {"target": None, "steps": 8}),
        ("model", {"target": 0.05, "steps": None}),
    ],
)
def test_a_link_brings_the_view_back(tab, values):
    from urllib.parse import parse_qsl

    address = links.link(tab, values)
    query = dict(parse_qsl(address[1:], keep_blank_values=True))
    assert links.read(query, TABS) == links.View(tab, values, ())


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"tab": "schedules", "length": "5000"}, "Argument 'length' must be at most 4096, not 5000."),
        (
            {"tab": "schedules", "length": "9" * 400},
            "Argument 'length' must be at most 4096, not a number of 41 digits",
        ),
        ({"tab": "schedules", "size": ""}, "Argument 'size' must be at least one schedule."),
        ({"tab": "watch", "seed": "1" + "0" * 20}, "Argument 'seed' must be at most 9007199254740992, not 1"),
        (
            {"tab": "watch", "text": "_" * 4097},
            "Argument 'text' must have at most 4096 characters in a link, not 4097.",
        ),
        ({"tab": "model", "target": "-1"}, "Argument 'target' must be at least 0, not -1."),
    ],
)
def test_a_value_that_no_field_can_have_is_left_out_of_a_link(query, sentence):
    reading = links.read(query, TABS)
    assert reading.values == {}
    assert sentence in reading.problems[0]


def test_what_is_wrong_with_a_link_is_left_out_with_a_sentence():
    reading = links.read({"tab": "schedules", "length": "abc", "size": "even,evn"}, TABS)
    assert reading.values == {}
    assert len(reading.problems) == 2
    assert "Argument 'length' must be an integer, not 'abc'." in reading.problems[0]
    assert links.read({"tab": "nowhere"}, TABS).tab == "schedules"


# Models


@pytest.fixture(scope="module")
def model():
    pytest.importorskip("torch")
    from unmask import models

    return models.load("builtin")


def test_two_models_write_side_by_side_from_one_seed(model):
    from unmask import models, order
    from unmask.app.data import watch as runs
    from unmask.sample import Sampler
    from unmask.schedule import Schedule

    other = models.load("causal")
    choices = (runs.Side("whole-comb", "even", 4, other), runs.Side("comb", "even", 4))
    *_, (left, right) = runs.watch(model, "", choices, seed=5)
    pairs = ((left, other, order.Comb(shift=0)), (right, model, order.Comb()))
    for found, writer, which in pairs:
        trace = Sampler(writer.predictor, Schedule(size.Even(4), which)).run((1, 256), rng=[5])
        assert "".join(found.pieces) == writer.codec.decode(trace.tokens[0].tolist())
        assert found.title.startswith(f"{writer.name}: ")


def test_both_sides_are_what_the_sampler_does(model):
    from unmask import order
    from unmask.app.data import watch as runs
    from unmask.sample import Sampler
    from unmask.schedule import Schedule

    text = "the ____ of the ____ was"
    choices = (runs.Side("comb", "even", 3), runs.Side("entropy", "threshold:0.5", 3))
    frames = list(runs.watch(model, text, choices, seed=5))
    left, right = frames[-1]
    start = model.codec.prompt(text, model.predictor.mask)
    import torch

    trace = Sampler(model.predictor, Schedule(size.Even(3), order.Comb())).run(torch.tensor([start]), rng=[5])
    assert "".join(left.pieces) == model.codec.decode(trace.tokens[0].tolist())
    assert left.revealed == tuple(trace.revealed[0].tolist())
    assert left.sizes == tuple(trace.sizes[0].tolist())
    assert left.nll[-1] == pytest.approx(float(trace.nll[0]))
    assert left.finished
    assert right.finished
    assert (left.planned, right.planned) == (3, None)
    # The first frame shows the text as it was typed, and no step undoes another.
    assert frames[0][0].steps == 0
    assert "".join(piece or "_" for piece in frames[0][0].pieces) == text
    assert all(later.steps >= earlier.steps for (earlier, _), (later, _) in pairwise(frames))
    page = parsed(player.watched(frames[-1]))
    sections = list(page.iter("section"))
    assert len(sections) == 2
    words = "".join(sections[0].find("p[@class='count']").itertext())
    bits = left.nll[-1] / 8 / math.log(2)
    assert words == (f"3 evaluations · 8 tokens · 2.67 tokens per evaluation · {bits:.3f} bits per token")


@pytest.mark.parametrize(
    ("text", "left", "sentence"),
    [
        ("th3", ("comb", "even", 3), "has '3' at character 3"),
        ("the", ("comb", "even", 3), "must have a gap to fill"),
        ("_", ("combb", "even", 3), "Argument 'left order' must be a known name"),
        (
            "_",
            ("comb-0", "even", 3),
            "Argument 'left order' must be valid, but 'comb-0' is not: its segments must be at least 1, not 0.",
        ),
        ("_", (None, "even", 3), "Argument 'left order' must be a name, not None."),
        (
            "_",
            ("comb", "threshold:x", 3),
            "Argument 'left size' must be valid, but 'threshold:x' is not: its threshold must be a number, not 'x'.",
        ),
        (
            "_",
            ("comb", "entropy-bound:-1", 3),
            "Argument 'left size' must be valid, but 'entropy-bound:-1' is not: its bound must be at least 0",
        ),
        ("_", ("comb", "evn", 3), "Argument 'left size' must be a known name, not 'evn'. Did you mean 'even'?"),
        ("_", ("comb", "", 3), "Argument 'left size' must be a known name, not ''. Choose from"),
        ("_", ("comb", None, 3), "Argument 'left size' must be a name, not None."),
        ("_", ("comb", "optimal", 3), "Argument 'left size' must be one that needs no calibration"),
        ("_", ("comb", "even", 0), "Argument 'left steps' must be at least 1, not 0."),
    ],
)
def test_a_bad_text_or_schedule_is_refused_before_the_model_runs(model, text, left, sentence):
    from unmask.app.data import watch as runs

    with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
        next(runs.watch(model, text, (runs.Side(*left), runs.Side("random", "even", 1)), seed=0))
    # The page has no such field to give.
    assert "--length" not in str(caught.value)
    assert "--calibration" not in str(caught.value)


def test_a_report_is_the_advice_of_the_command_line(model):
    from unmask import models
    from unmask.app.data import model as measured
    from unmask.calibration.advice import advise
    from unmask.words.sentences import advice as sentences

    calibration = models.calibration_of(model)
    report = measured.report(calibration, 0.05, None)
    wanted = advise(calibration, target=0.05)
    assert report.words == tuple(sentences(wanted, calibration, 0.05))
    assert report.record() == wanted.plan.schedule.to_json()
    assert report.sizes.sum() == calibration.length
    (random,) = (each for each in report.losses if each.name == "random")
    assert random.loss * math.log(2) == pytest.approx(calibration.random.curve.loss)
    page = parsed(panels.report(report, ""))
    assert_described(page)
    # The advised sizes are all equal, as the advice says: a chart would be one flat line.
    assert titles(page) == ["Cost of the best sizes", "Loss curves"]
    assert "even sizes, 16 tokens each" in "".join(page.itertext())


def test_advised_sizes_that_differ_are_drawn_after_what_they_cost(model):
    from unmask import models
    from unmask.app.data import model as measured

    report = measured.report(models.calibration_of(model), None, 20)
    assert report.sizes.min() < report.sizes.max()
    page = parsed(panels.report(report, ""))
    assert_described(page)
    assert titles(page) == ["Cost of the best sizes", "The advised schedule", "Loss curves"]


def titles(page):
    return ["".join(each.itertext()) for each in page.iter("h2")]


def test_a_calibration_of_another_model_or_length_says_so(model, calibration):
    from unmask.app.data import model as measured

    assert measured.differs(calibration, model) == ""
    other = dataclasses.replace(calibration, model="another")
    assert "of a different model, not of builtin," in measured.differs(other, model)
    shorter = dataclasses.replace(calibration, length=64)
    words = "This calibration is for texts of 64 tokens; the page runs the model with 256."
    assert measured.differs(shorter, model) == words
    assert "of 64 tokens" in panels.report(measured.report(calibration, 0.05, None), measured.differs(shorter, model))


def test_a_file_that_is_no_calibration_is_refused_by_its_own_name(tmp_path):
    pytest.importorskip("torch")
    from unmask.app.data import model as measured

    file = tmp_path / "notes.json"
    for content in ("no JSON", "[]", '{"schema": 1, "losses": {}, "length": 4, "model": "", "texts": 2}'):
        file.write_text(content)
        with pytest.raises(ValueError, match="Argument 'file'") as caught:
            measured.read(str(file))
        assert str(tmp_path) not in str(caught.value)


def test_the_command_names_its_own_option_where_a_calibration_is_none(tmp_path):
    pytest.importorskip("gradio")
    from click.testing import CliRunner

    from unmask.cli import main

    (tmp_path / "notes.md").write_text("no JSON")
    result = CliRunner().invoke(main, ["explore", "--no-browser", "--calibration", str(tmp_path / "notes.md")])
    assert result.exit_code == 2
    assert "--calibration must be a calibration file in valid JSON" in result.output


def test_what_does_not_fit_into_memory_blames_no_number_in_particular():
    pytest.importorskip("gradio")
    from unmask.app.fields import Form
    from unmask.words.mistakes import TOO_LARGE

    assert Form("tab")._sentence(MemoryError()) == ("", TOO_LARGE)
    assert "length" not in TOO_LARGE


def test_the_facts_of_a_distribution_speak_of_no_option():
    values = {"length": 16, "dimension": 12, "alphabet": 16, "stay": 0.8, "bias": 0.2}
    for family in DISTRIBUTIONS:
        values["alphabet"] = 2 if family in ("parity", "linear", "markov") else 16
        facts = panels.errors(last(family, values, ["even"])).split("</p>")[0]
        assert not re.search(r"--|[{}]|STAY|BIAS|DIMENSION", facts), facts


def test_without_gradio_one_sentence_names_the_extra(monkeypatch):
    pytest.importorskip("torch")
    from click.testing import CliRunner

    from unmask.cli import explore, main

    monkeypatch.setattr(explore.importlib.util, "find_spec", lambda name: None)
    result = CliRunner().invoke(main, ["explore", "--no-browser"])
    assert result.exit_code == 2
    # Installed from a clone, as here, or from an index: the line can be typed as it stands.
    assert re.search(r'Run: pip install (--editable "/[^"]*\[app\]"|"unmask\[app\]")', result.output)


def test_a_sentence_finds_its_field():
    gr = pytest.importorskip("gradio", reason="the page needs gradio: pip install 'unmask[app]'")
    from unmask.app.fields import Form

    with gr.Blocks():
        form = Form("tab", aliases={"estimate-curve": "draws"})
        form.add("steps", gr.Number(), links.whole())
        form.add("draws", gr.Number(), links.whole())
        form.finish()
    answers = form.answers(InputError("steps", "be at least 1", found="0"))
    assert answers == ['<p role="alert">Steps must be at least 1, not 0.</p>', "", ""]
    answers = form.answers(InputError("", "Out of reach", remedy="With {estimate_curve} it is estimated."))
    assert answers == ["", '<p role="alert">Out of reach. With &#x27;draws&#x27; it is estimated.</p>', ""]
    assert form.answers(InputError("", "Something else"))[2] == '<p role="alert">Something else.</p>'
    assert form.answers() == ["", "", ""]


def test_the_command_shows_the_page_to_this_machine_only_unless_told_otherwise(monkeypatch):
    pytest.importorskip("gradio")
    from click.testing import CliRunner

    from unmask.app import page
    from unmask.cli import main

    served = []

    def serve(built, **how):
        served.append(how)
        return "somewhere"

    monkeypatch.setattr(page, "serve", serve)
    monkeypatch.setattr(page, "stay", lambda built: None)
    for options in ([], ["--host", "0.0.0.0"]):
        assert CliRunner().invoke(main, ["explore", "--no-browser", *options]).exit_code == 0
    assert [how["host"] for how in served] == ["127.0.0.1", "0.0.0.0"]


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1", "", "a" * 300])
def test_an_address_of_another_machine_is_refused_at_once(host):
    """192.0.2.1 is kept for documentation; nobody has it."""
    from unmask.app import page

    message = r"Argument 'host' must be an address of this machine"
    with pytest.raises(ValueError, match=message):
        page.serve(None, host=host, port=None, browser=False)


def test_the_program_for_a_space_serves_the_page(monkeypatch):
    import gradio

    from unmask.app import page

    text = (Path(__file__).parent.parent / "docs" / "explorer.md").read_text(encoding="utf-8")
    program = text.split("```\n# app.py\n")[1].split("```")[0]
    served = []
    monkeypatch.setattr(page, "serve", lambda built, **how: served.append((built, how)))
    monkeypatch.setenv("SPACE_HOST", "mine.example")
    exec(program, {})
    ((built, how),) = served
    assert isinstance(built, gradio.Blocks)
    assert how == {"host": "0.0.0.0", "port": 7860, "browser": False, "names": ["mine.example"]}


# The page, without anybody who looks at it


HOSTILE = "<img src=x onerror=alert(1)>"


def hostile(calibration):
    """A calibration with markup wherever a file can have words of its own."""
    record = calibration.to_json()
    record |= {"model": HOSTILE, "source": HOSTILE}
    record["losses"] = {f"{HOSTILE}{name}": part for name, part in record["losses"].items()}
    return record


@pytest.fixture(scope="module")
def calibration(model):
    from unmask import models

    return models.calibration_of(model)


def test_what_turns_more_often_than_can_be_seen_is_a_band():
    x = np.arange(4096.0)
    for y, band in ((x % 8, True), ((x % 8).cumsum(), False), (1 + 1e-15 * (x % 2), False)):
        shown = chart.html(chart.Chart("key", "t", "s", "x", "y", [lines.Joined("line", x, y, 0)]))
        assert ("band" in shown) == ('Z"' in shown) == band


def test_zeros_on_a_logarithmic_axis_are_marked():
    x, one, two = np.array([1.0, 2.0, 4.0]), np.array([1.0, 0.5, 0.0]), np.zeros(3)
    both = [lines.Marked(lines.Joined("one", x, one, 0)), lines.Marked(lines.Joined("two", x, two, 1))]
    shown = chart.html(chart.Chart("key", "t", "s", "x", "y", both, log_y=True))
    assert shown.count("▾") == 4
    # Two at one place stand one above the other, as far apart as their names, which stand beside them.
    assert 'left:100.00%;bottom:7.50%">▾' in shown
    ends = shown.split('class="ends"')[1].split("</div>")[0]
    assert 'left:100.00%;bottom:3.00%">one<' in ends
    # A curve that is zero everywhere has no end to be named at.
    assert ">two<" not in ends
    assert ">two</button></li>" in shown


def test_names_stand_beside_the_marks_of_curves_that_end_with_zero():
    x = np.array([1.0, 2.0, 4.0])
    y = np.array([1.0, 0.5, 0.0])
    few, many = ([lines.Marked(lines.Joined(f"line-{place}", x, y, place)) for place in range(n)] for n in (5, 20))
    shown = chart.html(chart.Chart("key", "t", "s", "x", "y", few, log_x=True, log_y=True))
    marks = [float(each) for each in re.findall(r'left:100.00%;bottom:([\d.]+)%">▾', shown)]
    names = [float(each) for each in re.findall(r'left:100.00%;bottom:([\d.]+)%">line-', shown)]
    assert len(marks) == len(names) == 5
    assert np.diff(marks) == pytest.approx(7.5)
    assert np.subtract(sorted(names), marks) == pytest.approx(3.0)  # half of a mark
    # Many stay inside the chart.
    shown = chart.html(chart.Chart("key", "t", "s", "x", "y", many, log_x=True, log_y=True))
    marks = [float(each) for each in re.findall(r'left:100.00%;bottom:([\d.]+)%">▾', shown)]
    assert len(marks) == 20
    assert max(marks) < 94


def test_an_axis_of_steps_has_whole_numbers():
    axis = Axis.across(np.array([0.5, 2.5]), False)
    assert [label for _, label in axis.ticks] == ["1", "2"]
    assert [label for _, label in Axis.across(np.array([0.5, 64.5]), False).ticks] == ["20", "40", "60"]


def test_fixed_cuts_are_ticks_that_leave_the_scale_to_the_others():
    x = np.arange(1.0, 100.0)
    fixed = lines.Ticks("fixed", x, (x % 10 == 0).astype(float), 0)
    other = lines.Joined("other", x, x / 1e4, 1)
    page = parsed(chart.html(chart.Chart("key", "t", "s", "x", "y", [fixed, other])))
    figure = page.find("figure")
    low, high, _ = map(float, figure.get("data-y").split())
    assert low == 0
    assert high < 0.02
    (ticks,) = (path for path in page.iter("path") if path.get("data-kind") == "ticks")
    assert ticks.get("d").count("M") == 9
    # Every curve can be switched off by its name, and what is drawn gives its values back.
    assert [button.get("data-line") for each in page.iter("li") for button in each.iter("button")] == ["0", "1"]
    (line,) = (path for path in page.iter("path") if path.get("data-kind") == "line")
    points = np.array(line.get("d")[1:].split(), dtype=float).reshape(-1, 2)
    assert low + (1 - points[:, 1] / 1000) * (high - low) == pytest.approx(x / 1e4, abs=1e-4 * high)


def bars_of(shown):
    """The ends of the vertical axis, and the values from which to which the bars of a chart go."""
    page = parsed(shown)
    low, high, logarithmic = map(float, page.find("figure").get("data-y").split())
    (path,) = (path for path in page.iter("path") if "bar" in path.get("class").split())
    found = re.findall(r"M[-\d.]+ ([\d.]+)V([\d.]+)", path.get("d"))
    ends = low + (1 - np.array(found, dtype=float) / 1000) * (high - low)
    return (low, high), 10**ends if logarithmic else ends


@pytest.mark.parametrize("from_zero", [False, True])
def test_the_axis_reaches_both_ends_of_every_bar(from_zero):
    y, errors = np.array([1.0, 1.2, 1.1, 1.15]), np.array([0.4, np.nan, 0.01, 0.5])
    line = lines.Points("line", np.arange(1.0, 5), y, 0, errors)
    (low, high), ends = bars_of(chart.html(chart.Chart("key", "t", "s", "x", "y", [line], from_zero=from_zero)))
    assert low <= 0.6
    assert high > 1.65
    assert ends == pytest.approx(np.array([[0.6, 1.4], [1.09, 1.11], [0.65, 1.65]]), abs=1e-4 * (high - low))


def test_a_bar_that_has_no_end_on_a_logarithmic_axis_goes_down_to_its_lower_edge():
    y, errors = np.array([1.0, 0.1, 1.0, 1.0]), np.array([0.5, 0.01, 3.0, 0.999])
    line = lines.Points("line", np.arange(1.0, 5), y, 0, errors)
    shown = chart.html(chart.Chart("key", "t", "s", "x", "y", [line], log_y=True))
    (low, high), ends = bars_of(shown)
    assert low == pytest.approx(np.log10(0.09))  # the one lower end that is near its value
    assert high > np.log10(4)
    assert ends == pytest.approx(np.array([[0.5, 1.5], [0.09, 0.11], [0.09, 4.0], [0.09, 1.999]]), rel=1e-3)
    assert shown.count(" 1000.0V") == 3


@pytest.mark.parametrize("axis", results.AXES)
@pytest.mark.parametrize("key", results.collections())
def test_every_bar_of_the_results_is_as_long_as_its_error(key, axis):
    shown = outcomes.compared(results.compare([key], axis, "all"))
    figure = parsed(shown).find(".//figure")
    low, high, logarithmic = map(float, figure.get("data-y").split())
    bars = [path for path in figure.iter("path") if "bar" in path.get("class").split()]
    known = {
        path.get("data-line"): [each for each in json.loads(path.get("data-values")) if each[2]]
        for path in figure.iter("path")
        if path.get("data-kind") == "points"
    }
    for path in bars:
        ends = re.findall(r"M[-\d.]+ ([\d.]+)V([\d.]+)", path.get("d"))
        for (_, y, error), (down, up) in zip(known[path.get("data-line")], ends, strict=True):
            for end, said in ((y - error, down), (y + error, up)):
                if logarithmic:
                    end = max(low, np.log10(end)) if end > 0 else low
                assert 1000 * (1 - (end - low) / (high - low)) == pytest.approx(float(said), abs=0.2)
    assert bool(bars) == any(known.values())


def test_steps_beyond_the_length_are_clamped_and_said(model, calibration):
    tab = tab_of("schedules", model, calibration)
    shown = tab.refresh(Visitor(), "1", *said(tab, length=8, steps=16))
    assert "each of 8 steps" in shown[0]
    assert "steps=8&amp;" in shown[1]
    notes = dict(zip(tab.form.places, shown[2:], strict=True))
    assert {name for name, words in notes.items() if words} == {"steps"}
    assert "so 8 tokens take at most 8 steps." in notes["steps"]
    assert "alert" not in notes["steps"]


def test_no_word_from_outside_becomes_markup_in_any_panel(model, calibration):
    gradio = pytest.importorskip("gradio")
    from unmask.app import page, status
    from unmask.app.data import model as measured
    from unmask.app.data import watch as runs
    from unmask.calibration import Calibration

    report = measured.report(Calibration.from_json(hostile(calibration)), 0.05, None)
    run = runs.Run(HOSTILE, (HOSTILE, ""), (0, -3), (False, False), (1,), (1,), (1,), (0.5,), None)
    known = dataclasses.replace(last("markov", MARKOV, ["even"]).known, title=HOSTILE, notes=(HOSTILE,))
    shown = [
        panels.report(report, HOSTILE),
        player.watched((run, run)),
        panels.errors(tradeoffs.Tradeoff(known, ())),
        panels.table(HOSTILE, [HOSTILE], [], HOSTILE),
        status.note(HOSTILE),
        status.progress(1, 2, HOSTILE),
    ]
    built = page.build(dataclasses.replace(model, name=HOSTILE), calibration, HOSTILE)
    # What stands in a field to choose from is text to the browser, whatever it holds.
    panes = [block for block in built.blocks.values() if not isinstance(block, gradio.Dropdown)]
    shown += [str(block.value) for block in panes if isinstance(getattr(block, "value", None), str)]
    assert sum("&lt;img" in each for each in shown) >= 8
    assert [each for each in shown if "<img" in each] == []


@pytest.mark.parametrize(
    "change",
    [
        {"texts": HOSTILE},
        {"texts": 0},
        {"texts": True},
        {"length": "256"},
        {"length": 10**400},
        {"model": 3},
        {"losses": {"random": {"order": {"name": "random"}, "visible": [], "table": [], "error": []}}},
    ],
)
def test_a_damaged_calibration_is_one_sentence_about_the_file(calibration, tmp_path, change):
    from unmask.app.data import model as measured

    file = tmp_path / "mine.json"
    file.write_text(json.dumps(calibration.to_json() | change))
    with pytest.raises(
        ValueError,
        match=r"^Argument 'file' must be a usable calibration file, but '.*' is not: The calibration is damaged: ",
    ) as caught:
        measured.read(str(file))
    assert str(caught.value).count(". ") == 0


@pytest.mark.parametrize(
    ("part", "value"), [("table", float("nan")), ("error", -1.0), ("visible", 10**6), ("visible", 10**400)]
)
def test_numbers_that_were_never_measured_are_refused(calibration, tmp_path, part, value):
    from unmask.app.data import model as measured

    record = calibration.to_json()
    numbers = record["losses"]["random"][part]
    numbers[-1] = [value] * len(numbers[-1]) if part == "table" else value
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(record))
    with pytest.raises(
        ValueError,
        match=r"^Argument 'file' must be a usable calibration file, but '.*' is not: The calibration is damaged: ",
    ):
        measured.read(str(file))


def test_only_the_newest_work_of_a_page_is_current():
    from unmask.app.current import Current

    current = Current()
    first, other = current.begin("page", "1"), current.begin("another page", "1")
    assert first.current
    second = current.begin("page", "3")
    assert (first.current, second.current, other.current) == (False, True, True)
    # What was asked for before it but arrives after it is not worth beginning.
    assert not current.begin("page", "2").current
    assert second.current


class Visitor:
    """Stands for the request of one open page."""

    def __init__(self, session_hash="page"):
        self.session_hash = session_hash


def tab_of(name, model, calibration):
    gr = pytest.importorskip("gradio", reason="the page needs gradio: pip install 'unmask[app]'")
    from unmask.app.tabs import distributions, results, schedules, watch
    from unmask.app.tabs import model as own

    makers = {
        "schedules": schedules.build,
        "distributions": distributions.build,
        "watch": lambda: watch.build(model),
        "model": lambda: own.build(model, calibration, "a name"),
        "results": results.build,
    }
    with gr.Blocks():
        return makers[name]()


def said(tab, **values):
    usual = {name: field.value for name, field in tab.form.fields.items()}
    return list({**usual, **tab.usual(values), **values}.values())


def test_a_stream_ends_once_the_fields_say_something_else(model, calibration):
    tab = tab_of("distributions", model, calibration)
    old, new = said(tab, family="markov", stay=0.87), said(tab, family="latent-parity")
    stream = tab.refresh(Visitor(), "1", *old)
    first = next(stream)
    assert "Preparing" in first[2]
    tab.form.current.begin("page", "3")
    assert list(stream) == []
    assert list(tab.refresh(Visitor(), "2", *old)) == []
    *_, shown = tab.refresh(Visitor(), "4", *new)
    assert "latent-parity" in shown[0]
    assert shown[2] == ""


def test_a_quick_answer_that_came_too_late_is_not_shown(model, calibration, monkeypatch):
    tab = tab_of("schedules", model, calibration)
    compare = laws.compare

    def overtaken(*given):
        tab.form.current.begin("page", "2")
        return compare(*given)

    monkeypatch.setattr(laws, "compare", overtaken)
    shown = tab.refresh(Visitor(), "1", *said(tab))
    assert not any(isinstance(each, str) for each in shown)
    monkeypatch.setattr(laws, "compare", compare)
    assert "Mean sizes" in tab.refresh(Visitor(), "3", *said(tab))[0]


@pytest.mark.parametrize("name", ["schedules", "distributions", "model"])
def test_the_link_is_that_of_the_view_also_after_a_mistake(model, calibration, name):
    from collections.abc import Iterator

    tab = tab_of(name, model, calibration)
    mistakes = {"schedules": {"steps": -3}, "distributions": {"stay": 7}, "model": {"steps": -3}}

    def shown(**values):
        result = tab.refresh(Visitor(), "1", *said(tab, **values))
        return list(result) if isinstance(result, Iterator) else [result]

    pictures = shown()
    assert f"?tab={name}" in pictures[-1][1]
    # Neither view nor link is touched, whatever else is said.
    for picture in shown(**mistakes[name]):
        assert not isinstance(picture[0], str)
        assert not isinstance(picture[1], str)
        assert "href" not in "".join(each for each in picture if isinstance(each, str))


def opened(query, model, calibration):
    from unmask.app import page

    tabs = {name: tab_of(name, model, calibration) for name in ("schedules", "distributions", "watch", "model")}
    _, problems, *values = page._opened(query, tabs)
    fields = [(key, name) for key, tab in tabs.items() for name in tab.form.fields]
    tab = query["tab"]
    return problems, {name: value for (key, name), value in zip(fields, values, strict=True) if key == tab}


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({"tab": "distributions", "family": "mixture"}, {"family": "mixture", "length": 256, "bias": 0.1}),
        ({"tab": "distributions", "family": "linear", "length": "64"}, {"length": 64, "dimension": 120, "draws": 100}),
        ({"tab": "distributions", "family": "parity", "alphabet": ""}, {"alphabet": None, "stay": None, "draws": 0}),
        ({"tab": "model", "target": "", "steps": "8"}, {"target": None, "steps": 8}),
        ({"tab": "model", "steps": "8"}, {"target": 0.05, "steps": 8}),
    ],
)
def test_a_link_sets_its_fields_and_the_others_go_with_them(model, calibration, query, wanted):
    problems, values = opened(query, model, calibration)
    assert problems == ""
    assert {name: values[name] for name in wanted} == wanted


def test_a_view_of_a_file_has_no_link(model, calibration, tmp_path):
    calibration.save(tmp_path / "mine.json")
    tab = tab_of("model", model, calibration)
    *_, shown = tab.refresh(Visitor(), "1", *said(tab, file=str(tmp_path / "mine.json")))
    assert "Take 16 steps" in shown[0]
    assert "href" not in shown[1]


def test_the_sentence_about_a_typed_name_is_at_its_field(model, calibration):
    tab = tab_of("watch", model, calibration)
    for error in (
        InputError("left size", "be possible", detail="and 'threshold:x' is not: its threshold must be a number"),
        InputError("left size", "be a known name", found="''", remedy="Choose from even.", choices=("even",)),
    ):
        answers = dict(zip(tab.form.places, tab.form.answers(error), strict=True))
        assert [name for name, sentence in answers.items() if sentence] == ["left size"]
        assert "Left size" in answers["left size"]
    assert "Choose one from the list." in answers["left size"]
