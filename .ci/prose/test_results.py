"""The figures of the documentation: each script's numbers bear out what its figure is said to show."""

import csv
import importlib
import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from unmask import order, size

FOLDER = Path(__file__).parent.parent.parent / "experiments"
BUILTIN = FOLDER.parent / "src" / "unmask" / "models" / "builtin"
BLIND = ("cosine", "tc", "dtc", "minimax-tc", "minimax-dtc", "minimax-min", "universal", "even")
SCRIPTS = ("overhang", "minimax", "both", "smooth", "readme")


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def test_the_tree_of_choices_names_what_its_page_names(script):
    page = (FOLDER.parent / "docs" / "choosing.md").read_text(encoding="utf-8")
    tree = script("choosing")
    for take, _ in (*tree.TREE.values(), tree.ELSE):
        for name in re.findall(r"[A-Z]\w+", take):
            assert hasattr(size, name) or hasattr(order, name)
            assert f"`{name}" in page


def rows(name):
    with (FOLDER / "results" / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_quoted_costs_cover_the_true_ones_as_is_said():
    with (FOLDER.parent / "benchmarks" / "results" / "quotes.csv").open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert {(r["law"], r["rows"]) for r in found} == {
        (law, count) for law in ("chain", "code", "mixture") for count in ("16", "64", "256")
    }
    assert all(r["repetitions"] == "300" for r in found)
    assert max(abs(float(r["mean_error"])) for r in found) < 0.1
    short = [r for r in found if float(r["inside"]) < 0.93]
    assert [(r["law"], r["rows"], r["asked"]) for r in short] == [("code", "16", "steps 4")]
    rest = sorted(float(r["inside"]) for r in found if r not in short)
    page = " ".join((FOLDER.parent / "docs" / "models.md").read_text(encoding="utf-8").split())
    assert f"in {np.floor(100 * rest[0]):.0f} to {100 * rest[-1]:.0f} % of the repetitions" in page
    assert f"One of the eighteen cases falls short, with {100 * float(short[0]['inside']):.0f} %" in page
    assert len(found) == 18


def test_schedules_from_rows_of_many_lengths_cost_what_is_said():
    worst = max(float(r["ratio"]) for r in rows("lengths.csv"))
    assert worst <= 1.02
    page = " ".join((FOLDER.parent / "docs" / "models.md").read_text(encoding="utf-8").split())
    assert f"costs at most {100 * (worst - 1):.1f} % more" in page


def test_the_stored_table_of_reactions_shows_what_is_said_of_it():
    found = {(r["order"], r["size"], r["steps"]): r for r in rows("reactions.csv")}
    bits = {key: float(r["bits_per_token"]) for key, r in found.items()}
    page = " ".join((FOLDER.parent / "docs" / "integrations.md").read_text(encoding="utf-8").split())
    errors = sorted(float(r["standard_error"]) for r in found.values())
    assert f"standard errors ({errors[0]:.2f} to {errors[-1]:.2f}) are over reactions" in page
    one = found["random", "even", "1"]
    more, error = (float(one[key]) for key in ("difference", "difference_error"))
    assert f"One step costs {more:.3f} ± {error:.3f} bits more than the best schedule" in page
    four = {name: bits[name, "even", "4"] for name in ("confidence", "random")}
    assert four["confidence"] > four["random"]
    assert f"confidence ({four['confidence']:.3f}) does worse than random order ({four['random']:.3f})" in page
    rule = found["confidence", "threshold:0.9", ""]
    assert f"needs {float(rule['evaluations']):.1f} evaluations for {float(rule['bits_per_token']):.3f}" in page
    whole = [r for (_, size, steps), r in found.items() if (size, steps) == ("even", "20")]
    assert all(float(r["difference"]) <= float(r["difference_error"]) for r in whole)


def test_what_was_advised_for_reactions_costs_about_what_was_said():
    """Two errors of both, on the half that the schedule was not chosen on."""
    page = " ".join((FOLDER.parent / "docs" / "integrations.md").read_text(encoding="utf-8").split())
    for half in ("first", "second"):
        costs = rows(f"reactions-{half}.csv")
        for steps, cost in zip((4, 10), costs, strict=False):
            said = json.loads((FOLDER / "results" / f"reactions-{half}-{steps}.json").read_text(encoding="utf-8"))
            bits, error = float(cost["bits_per_token"]), float(cost["standard_error"])
            assert abs(bits - said["bits_per_token"]) < 2 * np.hypot(error, said["error"])
            even = next(r for r in costs if (r["order"], r["size"], r["steps"]) == ("random", "even", str(steps)))
            base = float(even["bits_per_token"])
            if said["order"] == "confidence":
                assert base < bits
                on_these = said["candidates"][0]["bits_per_token"]
                assert f"which costs {on_these:.3f} on the {half} half" in page
                four = next(r for r in costs if (r["order"], r["size"], r["steps"]) == ("random", "even", "4"))
                spent = f"costs {bits:.3f} in {float(cost['evaluations']):.1f} evaluations"
                same = f"the cost of four even steps in random order there ({float(four['bits_per_token']):.3f})"
                assert f"{spent}. That is about {same}, while ten such steps cost less ({base:.3f})" in page
            else:
                assert (cost["order"], said["order"]) == ("spread", "spread")
                assert bits < base


def costs():
    """Order, size and steps -> bits per character, excess in nats per text, its standard error."""
    return {
        (r["order"], r["size"], r["steps"]): tuple(float(r[key]) for key in ("bits", "excess", "excess_error"))
        for r in rows("text8.csv")
        if r["excess"]
    }


def test_the_pages_with_tables_quote_the_results(script):
    tables = script("tables")
    pages = [place.read_text(encoding="utf-8") for place in tables.PAGES]
    assert list(map(tables.filled, pages)) == pages
    for name in tables.TABLES:
        assert sum(f"<!-- {name} -->" in page for page in pages) == 1


def test_the_prose_quotes_the_results_too():
    """What README and the page of results say in words."""
    found = costs()
    comb, even, whole = (
        found[key] for key in (("comb", "even", "16"), ("random", "even", "16"), ("random", "one by one", "256"))
    )
    page, readme = (
        " ".join((FOLDER.parent / name).read_text(encoding="utf-8").split())
        for name in ("docs/results.md", "README.md")
    )
    same = f"less than 256 steps of the same model in random order, which cost {whole[0]:.3f}"
    assert f"comb cost {comb[0]:.3f} bits, {same}" in page
    assert f"paired difference {-comb[1]:.1f} ± {comb[2]:.1f} nats per text" in page
    assert f"cost {even[0]:.3f} in 16 steps" in page
    assert f"16 steps of a comb cost {comb[0]:.3f} bits per character" in readme
    assert (
        f"in random order costs {whole[0]:.3f}, and 16 steps with even sizes in random order cost {even[0]:.3f}"
        in readme
    )
    optimal, cosine = (found["random", size, "16"][0] for size in ("optimal", "cosine"))
    assert f"gain {even[0] - optimal:.3f} bits over even ones at 16 steps" in page
    assert f"lose {cosine - even[0]:.3f}" in page
    spread = found["spread", "even", "4"][0] - found["spread", "optimal", "4"][0]
    assert f"sizes matter too: in spread order, optimal sizes gain {spread:.3f} bits" in page
    for order_name in ("random", "spread"):
        for steps in ("8", "16", "32", "64"):
            assert found[order_name, "even", steps][0] - found[order_name, "optimal", steps][0] <= 0.02
    made = {(r["name"], r["steps"]): r for r in rows("search.csv")}
    seen = float(made["comb", "16"]["predicted"]) - float(made["best of all", "16"]["predicted"])
    assert f"was {seen:.3f} bits better on the 256 validation windows" in page
    bound = next(r for r in rows("text8.csv") if r["size"] == "entropy-bound 32")
    assert round(float(bound["steps"])) == 16
    assert f"the entropy bound costs {float(bound['bits']):.3f} bits, even sizes in random order {even[0]:.3f}" in page
    assert f"anchors costs {float(made['four anchors, then runs', '16']['over_comb']):.3f} bits more" in page
    assert f"bit-reversed order costs {float(made['bit reversal', '16']['over_comb']):.3f} more" in page


def test_the_frontier_says_what_was_measured():
    """Words of README and of the page of results against the committed tables."""
    found = {(r["model"], r["order"], r["size"], r["steps"]): r for r in rows("frontier.csv")}
    page, readme = (
        " ".join((FOLDER.parent / name).read_text(encoding="utf-8").split())
        for name in ("docs/results.md", "README.md")
    )
    over = {steps: float(found["causal", "comb", "even", steps]["over"]) for steps in ("16", "32", "64")}
    assert f"Compared with left to right, it costs {over['64']:.3f} bits more in 64 steps" in page
    assert f"bits more in 64 steps, {over['32']:.3f} more in 32" in page
    assert f"and {over['16']:.3f} more in 16, for the same arithmetic" in page
    assert over["64"] < 0.06
    assert over["32"] < 0.12
    assert over["16"] < 0.20
    (check,) = rows("verified.csv")
    taken, forecast = float(check["evaluations"]), float(check["forecast"])
    assert taken <= 40
    assert abs(forecast / taken - 1) < 0.1
    assert f"they take {taken:.1f} evaluations instead of 256. The forecast from other text was {forecast:.1f}" in page
    assert f"a run of 16 steps takes about {taken:.0f} evaluations" in readme
    best = min(float(r["bits"]) for (model, *_), r in found.items() if model == "both ways")
    assert float(found["causal", "comb", "even", "16"]["bits"]) < best
    random = float(found["causal", "random", "even", "16"]["bits"])
    assert random > float(found["causal", "comb", "even", "16"]["bits"]) + 0.5
    assert f"The same network in random order costs {random:.2f} bits in 16 steps" in page
    seconds = {}
    for row in rows("causal-log.csv"):
        run = row["run"].split()[0]
        seconds.setdefault(run, {})[row["run"]] = float(row["seconds"])
    made = {(r["run"], r["schedule"]): float(r["bits"]) for r in rows("causal-search.csv")}
    gains = [made["comb 1", f"comb {k}"] - made["comb 2", f"comb {k}"] for k in (16, 32, 64)]
    assert "gained {:.3f} bits in 16 steps, {:.3f} in 32 and {:.3f} in 64".format(*gains) in page
    more = [made["comb 2", f"comb {k}"] - made["comb 3", f"comb {k}"] for k in (16, 32, 64)]
    assert "to 61,044 updates, gained another {:.3f}, {:.3f} and {:.3f}".format(*more) in page
    last = [made["comb 3", f"comb {k}"] - made["comb 4", f"comb {k}"] for k in (16, 32, 64)]
    assert "twice the weight decay, gained another {:.3f}, {:.3f} and {:.3f}".format(*last) in page
    fewer = made["left-to-right, fewer updates", "left to right"] - made["left-to-right", "left to right"]
    assert f"it is worse by {fewer:.3f} bits on validation text" in page
    fitted = [made[f"{run} on training text", "comb 16"] for run in ("comb 3", "dropout")]
    assert f"({fitted[0]:.2f} bits against {made['comb 3', 'comb 16']:.2f} in 16 steps)" in page
    own = f"ended at {fitted[1]:.2f} bits on its training text and {made['dropout', 'comb 16']:.2f} on new text"
    assert own in page
    assert float(found["causal", "comb", "even", "16"]["bits"]) < 1.57
    lost = made["comb 4", "comb 16"] - made["comb 4", "comb of 16 teeth, one by one"]
    few = [
        float(found["causal", *key]["bits"])
        for key in (("comb", "even", "16"), ("comb of 16 teeth", "one by one", "256"))
    ]
    assert 0.008 < lost < 0.009
    assert f"costs only {few[0] - few[1]:.3f} bits less than revealing them in 16 steps" in page
    gained = few[0] - float(found["causal", "comb", "even", "32"]["bits"])
    assert round(gained / (few[0] - few[1])) == 9
    assert f"loses only {few[0] - few[1]:.3f} bits, and a comb in 32 steps instead of 16 gains nine times that" in page
    over = [
        made["order", name] - made["order", "comb 16"] for run, name in made if run == "order" and name != "comb 16"
    ]
    assert f"cost {min(over):.2f} to {max(over):.2f} bits more" in page
    learned = [float(r["loss"]) / np.log(2) for r in rows("causal-log.csv") if r["run"] == "left-to-right"][-1]
    anchor = float(found["left-to-right", "left-to-right", "one by one", "256"]["bits"])
    assert f"({learned:.2f} bits at the end of its training against {anchor:.2f} on new text)" in page
    minutes = {run: sum(each.values()) / 60 for run, each in seconds.items()}
    assert (
        f"{minutes['left-to-right']:.1f} minutes on an H200 against {minutes['comb']:.1f} for the causal model" in page
    )


def test_causal_models_are_as_much_faster_as_is_said():
    folder = FOLDER.parent / "benchmarks" / "results"
    written, scored = (json.loads((folder / name).read_text()) for name in ("generate.json", "scoring.json"))
    page = " ".join((FOLDER.parent / "docs" / "models.md").read_text(encoding="utf-8").split())
    assert "in less than a fifth of the time" in page
    assert written["sampler"]["ratio"] > 5
    assert "scores 64 texts in 64 steps more than twenty times as fast" in page
    assert scored["replay_over_one_pass"] > 20


def test_sixteen_steps_of_a_comb_beat_one_by_one_in_random_order():
    found = costs()
    assert found["random", "one by one", "256"][0] <= 1.75
    bits, excess, error = found["comb", "even", "16"]
    assert min(bits for (_, _, steps), (bits, _, _) in found.items() if steps == "16") == bits
    assert excess < -3 * error


def test_other_rules_need_ten_times_as_many_evaluations(script):
    needed = script("tables").needed
    assert needed("comb", "even") == pytest.approx(16)
    assert needed("random", "even") is None
    assert 170 < needed("entropy", "entropy-bound") < 190
    assert 200 < needed("confidence", "threshold") < 215


def test_what_the_calibration_predicts_is_what_is_measured():
    """Validation text predicts test text: within 3 standard errors of both, for every blind schedule."""
    compared = 0
    for r in rows("text8.csv"):
        if r["predicted"] and round(float(r["steps"])) in (8, 16, 32, 63, 64):
            bits, predicted, *errors = (float(r[key]) for key in ("bits", "predicted", "error", "predicted_error"))
            assert abs(bits - predicted) <= 3 * np.hypot(*errors)
            compared += 1
    assert compared >= 4 * 14


def test_optimal_sizes_are_never_significantly_worse_than_others_of_their_order():
    """Errors are of differences to one reference, whose noise they share, so their sum in quadrature is too large."""
    found = costs()
    for order_name, others in (("random", BLIND), ("spread", ("even",))):
        for steps in ("4", "8", "16", "32", "64", *(["128"] if order_name == "random" else [])):
            _, mine, my_error = found[order_name, "optimal", steps]
            for other in others:
                _, excess, error = found[order_name, other, steps]
                assert mine <= excess + 3 * np.hypot(my_error, error)


def test_no_periodic_order_beats_the_comb_in_sixteen_steps():
    found = {(r["name"], r["steps"]): (float(r["over_comb"]), float(r["over_comb_error"])) for r in rows("search.csv")}
    assert all(gain >= -3 * error for (_, steps), (gain, error) in found.items() if steps in ("8", "16"))
    gain, error = found["best of all", "4"]
    assert gain < -3 * error  # but few steps leave room


def test_inside_blocks_what_stands_apart_costs_least():
    """What is advised on the page of integrations, against the committed measurement."""
    found = {(r["block"], int(r["steps"]), r["order"]): r for r in rows("blocks.csv")}
    bits = {key: float(r["bits"]) for key, r in found.items()}
    inside = {key[:2] for key in found if key[0] and key[1] < int(key[0]) and (*key[:2], "margin") in found}
    assert {("16", 2), ("32", 4)} <= inside
    for where in inside:
        comb = found[*where, "whole-comb"]
        assert float(comb["over"]) < -3 * float(comb["over_error"])
        apart = [bits[*where, name] for name in ("whole-comb", "comb", "spread") if (*where, name) in bits]
        looks = [bits[*where, name] for name in ("confidence", "margin", "entropy") if (*where, name) in bits]
        assert max(apart) < min(looks)
        if where[1] == 2 and (*where, "random") in bits:
            assert bits[*where, "random"] < min(looks)
        if (*where, "left-to-right") in bits and int(where[0]) // where[1] > 2:
            assert bits[*where, "left-to-right"] > max(looks)
    for short, long in (("8", "16"), ("16", "32")):
        for (block, steps), longer in (((short, 2), (long, 4)), ((short, 4), (long, 8))):
            if {(block, steps), longer} <= inside:
                assert bits[*longer, "whole-comb"] < bits[block, steps, "whole-comb"]
    four_times = min(cost for (block, steps, _), cost in bits.items() if block and 256 // int(block) * steps == 64)
    assert bits["", 16, "whole-comb"] < four_times
    assert all(r["windows"] == "512" for r in found.values())
    page = " ".join((FOLDER.parent / "docs" / "integrations.md").read_text(encoding="utf-8").split())
    gain = bits["16", 2, "margin"] - bits["16", 2, "comb"]
    assert f"a comb costs {gain:.3f} bits per character less than the margin rule, for the same 32 evaluations" in page


def test_caches_cost_what_they_leave_out():
    found = rows("caches.csv")
    for r in found:
        if r["rule"] == "everything":
            assert (float(r["computed"]), float(r["ratio"]), float(r["over"])) == (1, 1, 0)
        elif r["rule"] == "none":
            assert (float(r["computed"]), float(r["over"])) == (1, 0)
        else:
            assert float(r["computed"]) < 1
    share = {
        (r["rule"], r["refresh"]): float(r["computed"])
        for r in found
        if (r["order"], r["block"]) == ("whole-comb", "16")
    }
    assert share["dual", ""] == pytest.approx((1 + 3 * 16 / 256) / 4, abs=1e-4)
    page = " ".join((FOLDER.parent / "docs" / "integrations.md").read_text(encoding="utf-8").split())
    dual = [float(r["over"]) for r in found if r["rule"] == "dual"]
    least = np.floor(1e3 * min(dual)) / 1e3
    assert f"{least:.3f} to {max(dual):.3f} bits more per character and takes about half the time" in page
    assert all(0.4 < float(r["ratio"]) < 0.6 for r in found if r["rule"] == "dual")
    own = sorted(float(r["ratio"]) for r in found if r["rule"] == "none")
    assert (
        f"took {own[0]:.2f} to {own[-2]:.2f} times as long as that code, and {own[-1]:.2f} times as long in a first run"
        in page
    )
    delayed = [r for r in found if r["rule"] == "delayed"]
    assert min(float(r["ratio"]) for r in delayed) > 0.78
    never = [float(r["over"]) for r in delayed if (r["refresh"], r["order"]) == ("never", "whole-comb")]
    assert f"without a refresh a comb costs {min(never):.2f} to {max(never):.2f} bits more" in page


def test_a_schedule_is_served_best_by_a_model_trained_on_its_masks():
    found = {
        (r["masks"], r["schedule"]): (float(r["over_uniform"]), float(r["over_uniform_error"]))
        for r in rows("masks.csv")
    }
    page = (FOLDER.parent / "docs" / "results.md").read_text(encoding="utf-8")
    (own, own_error), (half, half_error) = (found[masks, "comb, 8 steps"] for masks in ("comb", "half comb"))
    assert own < half - 3 * own_error < -3 * half_error
    assert f"costs {-own:.3f} bits less" in page
    assert f"gains {-half:.3f} bits" in page
    gain, error = found["comb", "random, 8 steps"]
    assert gain > 3 * error


def test_the_page_says_what_the_calibration_knows_of_the_model():
    pytest.importorskip("torch")
    from unmask.calibration import Calibration

    curve = Calibration.load(BUILTIN / "calibration.json").random.curve
    numbers = (curve.entropy, curve.total_correlation, curve.dual_total_correlation)
    words = "in nats per text: cross-entropy {:.0f}, total correlation {:.0f}, dual total correlation {:.0f}."
    page = " ".join((FOLDER.parent / "docs" / "results.md").read_text(encoding="utf-8").split())
    assert words.format(*numbers) in page
    seen = json.loads((FOLDER / "results" / "atlas-characters-seen.json").read_text(encoding="utf-8"))
    ours, last = (each / np.log(2) for each in (numbers[2] / curve.length, curve.loss[-1]))
    assert f"The last is {ours:.2f} bits per character, while the [atlas]" in page
    assert f"gives {seen['dtc']:.2f} for the same model" in page
    assert f"this loss is {last:.2f} ± 0.04 bits here, and {seen['loss'][-1]:.2f} in the atlas" in page


def test_the_time_of_training_is_that_of_the_log():
    """Seconds of a run begin again when it is resumed."""
    log = [(r["run"], int(r["step"]), float(r["seconds"])) for r in rows("builtin-log.csv")]
    ends = [a for a, b in pairwise([*log, ("", 0, 0.0)]) if a[0] != b[0] or a[2] > b[2]]
    card, changes = (
        " ".join(path.read_text(encoding="utf-8").split())
        for path in (BUILTIN / "card.md", FOLDER.parent / "CHANGELOG.md")
    )
    assert f"| time | {sum(seconds for _, _, seconds in ends) / 60:.0f} minutes on one NVIDIA H200" in card
    update = {
        run: np.median([(b[2] - a[2]) / (b[1] - a[1]) for a, b in pairwise(log) if a[0] == b[0] == run and b[2] > a[2]])
        for run in "23"
    }
    plain, recorded = (round(1e3 * update[run]) for run in "23")
    assert f"take {recorded} ms instead of {plain}:" in card
    assert f"of {plain} ms for an update of the built-in model, {plain - recorded} were Python's" in changes


def test_the_card_of_the_model_says_what_was_measured():
    card = (BUILTIN / "card.md").read_text(encoding="utf-8")
    for r in rows("builtin-scores.csv"):
        assert f"| {float(r['bits']):.3f} ± {float(r['error']):.3f} |" in card


def test_corrections_do_what_is_said_of_them():
    page = " ".join((FOLDER.parent / "docs" / "results.md").read_text(encoding="utf-8").split())
    left = {
        (r["law"], r["temperature"], r["rule"], r["steps"], f"{float(r['evaluations']):.0f}"): float(r["kl"])
        for r in rows("revision-exact.csv")
    }
    four, anew, taken = (
        [left[law, "1", *key] for law in ("chain", "random law")]
        for key in (("random", "4", "4"), ("gibbs at the end", "3", "4"), ("rescale 0.5", "4", "4"))
    )
    assert f"four steps leave {four[0]:.3f} nats. Three steps and one Gibbs redraw leave {anew[0]:.3f}" in page
    assert f"(rescale 0.5) leave {taken[0]:.3f}, so here a correction pays" in page
    assert f"four steps leave {four[1]:.3f}, and these two corrections leave {anew[1]:.3f} and {taken[1]:.3f}" in page
    assert f"adds an error: {left['chain', '1', 'rescale 0.5', '5', '5']:.3f} on the chain" in page
    drafted = [left["chain", "1", "likeliest", steps, steps] for steps in ("3", "5")]
    assert f"{drafted[0]:.2f} nats in three steps and {drafted[1]:.2f} when tokens are revealed one at a time" in page
    assert drafted == [left["chain", "1", "planner", steps, steps] for steps in ("3", "5")]
    flat = left["chain", "1.3", "random", "5", "5"], left["chain", "1.3", "verify 0.5", "4", "13"]
    assert f"leaves {flat[0]:.3f} nats" in page
    assert f"leaves {flat[1]:.3f} in 13 evaluations" in page
    assert [key for key, kl in left.items() if key[:2] == ("chain", "1.3") and kl < flat[0]] == [
        ("chain", "1.3", "verify 0.5", "4", "13"),
        ("chain", "1.3", "verify 0.5", "5", "15"),
    ]


def test_what_revisions_write_is_judged_as_is_said():
    page = " ".join((FOLDER.parent / "docs" / "results.md").read_text(encoding="utf-8").split())
    found = {(r["rule"], r["budget"]): r for r in rows("revision.csv")}

    def of(column: str, rule: str, budget: str = "16") -> float:
        return float(found[rule, budget][column])

    real = of("judged", "real text", "0"), 100 * of("words", "real text", "0")
    assert f"Real text costs the judge {real[0]:.2f} bits, and {real[1]:.0f} % of its words are distinct" in page
    assert f"Texts of a comb in 16 steps cost the judge {of('judged', 'comb'):.2f} bits" in page
    assert f"taken back at each step, they cost {of('judged', 'comb, cap 0.1'):.2f}" in page
    dull = [of("judged", "confidence, planner", each) for each in ("16", "32")]
    words = [100 * of("words", "confidence, planner", each) for each in ("16", "32")]
    assert f"cost the judge {dull[0]:.2f} bits in 16 evaluations and {dull[1]:.2f} in 32" in page
    assert f"only {words[0]:.0f} and {words[1]:.0f} % of the words, respectively, are distinct" in page
    bits = [of("bits", rule) for rule in ("confidence, spaced 8", "confidence", "comb")]
    said = "costs {1:.2f} bits per character, and {0:.2f} if the positions of a step are at least 8 apart"
    assert f"By exact replay of 8 windows of test text, confidence order in 16 steps {said.format(*bits)}" in page
    kept = {(r["model"], r["order"], r["size"], r["steps"]): r for r in rows("frontier.csv")}
    whole = float(kept["both ways", "comb", "even", "16"]["bits"])
    assert f"On the same 8 windows a comb costs {bits[2]:.2f} (on all 512, {whole:.3f})" in page
    texts = of("judged", "confidence, spaced 8"), of("judged", "confidence")
    assert f"cost the judge {texts[0]:.2f} bits with this spacing, and {texts[1]:.2f} without it" in page
