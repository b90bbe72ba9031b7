"""What docs/atlas.md says by hand about six kinds of data, against the committed results."""

import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from unmask import size
from unmask.information.curve import Curve

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "experiments"))
import atlastables  # noqa: E402
import common  # noqa: E402

KINDS = ("books", "characters", "sudoku", "countdown", "molecules", "digits")
EARLY = ("sudoku", "countdown", "molecules", "digits")  # kinds whose loss falls early


@pytest.fixture(scope="module")
def page():
    whole = " ".join((ROOT / "docs" / "atlas.md").read_text(encoding="utf-8").split())
    return whole[whole.index("## Six kinds of data") : whole.index("## The oracle")]


def rows(kind, what=""):
    return common.atlas_rows(kind, what)


def bits(kind, network, order, sizes):
    return float(atlastables.at(rows(kind), network, order, sizes)["bits"])


def score(kind, network, rule, column, draw="temperature 1"):
    own = [r for r in rows(kind, "-scores") if (r["network"], r["rule"], r["draw"]) == (network, rule, draw)]
    return 100 * float(own[0][column])


def spent(kind, network, rule, draw="temperature 1"):
    """Mean evaluations of a written text."""
    own = [r for r in rows(kind, "-scores") if (r["network"], r["rule"], r["draw"]) == (network, rule, draw)]
    return float(own[0]["evaluations"])


def seen(kind):
    return json.loads((ROOT / "experiments" / "results" / f"atlas-{kind}-seen.json").read_text(encoding="utf-8"))


def random_order(kind):
    """Number of evaluations -> sizes -> bits, in random order."""
    steps = [each for each in atlastables.budgets(rows(kind)) if each > 1]
    names = ("even", "cosine", "tc", "dtc", "minimax")
    return {n: {name: bits(kind, "both", "random", f"{name}:{n}") for name in names} for n in steps}


def test_the_advice_is_as_good_as_is_said(page):
    found = [row for kind in KINDS for row in rows(kind, "-advised")]
    over = [(float(row["over"]), float(row["over_error"])) for row in found]
    same = [each for each in over if each == (0, 0)]
    below = [each for each in over if each[0] < -2 * each[1]]
    rest = [each for each in over if each not in same and each not in below]
    assert f"In {len(same)} of the {len(found)} cases the advised schedule is itself the cheapest rule" in page
    assert f"In {len(below)} it costs less than the cheapest other rule by more than two standard errors" in page
    most = f"{math.ceil(1000 * max(value for value, _ in rest)) / 1000:.3f}"  # rounded up: it is a bound
    assert f"In the remaining {len(rest)} it costs at most {most} bits more, and the difference is within two" in page
    assert all(value <= 2 * error for value, error in rest)
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    said = (
        f"In the {len(found)} cases of the atlas, its choice cost at most {most} bits per token more than the best rule"
    )
    assert f"{said} that took no more evaluations." in readme
    behind = sorted(float(row["over"]) for row in rows("books", "-advised") if float(row["over"]) > 0)
    assert len(behind) == 3
    assert f"the advice costs more in three cases, by {behind[0]:.3f} to {behind[-1]:.3f} bits" in page
    reactive = [row["schedule"].split(", ")[0] for row in rows("sudoku", "-advised")]
    assert set(reactive) <= {"entropy", "margin", "confidence"}
    assert len(reactive) == 5
    assert "recommends a reactive rule at all five numbers of evaluations" in page
    seven = next(row for row in rows("sudoku", "-advised") if row["budget"] == "7")
    assert seven["schedule"] == "confidence, threshold"
    assert f"this is a confidence threshold that needs only {float(seven['evaluations']):.1f} on average" in page


def test_a_causal_network_costs_less_where_it_is_said(page):
    assert "On word pieces, characters, molecules and digits, a comb on such a network costs less" in page
    for kind in KINDS:
        costs = [row for row in rows(kind) if row["network"] == "both"]
        less = []
        for steps in atlastables.budgets(rows(kind))[1:]:
            own = [float(row["bits"]) for row in costs if float(row["evaluations"]) <= steps]
            less.append(bits(kind, "causal", "whole-comb", f"even:{steps}") < min(own))
        assert all(less) == (kind not in ("sudoku", "countdown"))
        if kind == "countdown":
            assert [n for n, is_less in zip(atlastables.budgets(rows(kind))[1:], less, strict=True) if is_less] == [8]
            assert "on countdown it costs less only from 8 evaluations on" in page
    for name, same in (("whole-comb", "comb"), ("random", "random"), ("margin", "margin")):
        for steps in atlastables.budgets(rows("sudoku")):
            one, other = (
                bits("sudoku", network, each, f"even:{steps}") for network, each in (("causal", name), ("both", same))
            )
            assert one > other


def test_rounding_decides_what_is_said(page):
    single = {(row["order"], row["size"], row["steps"]): float(row["bits"]) for row in common.read("text8.csv")}
    apart = {
        (name, steps): abs(single[name, "even", str(steps)] - bits("characters", "both", name, f"even:{steps}"))
        for name in ("confidence", "margin", "entropy")
        for steps in atlastables.budgets(rows("characters"))
    }
    assert max(apart, key=apart.get) == ("entropy", 8)
    most = max(apart.values())
    assert f"differ by up to {most:.3f} bits (entropy order in 8 steps), while those of planned orders" in page
    assert "those of planned orders agree to five digits" in page
    assert f"on characters the costs of reactive rules are uncertain by about {most:.2f} bits" in page
    planned = [
        abs(single[name, "even", str(steps)] - bits("characters", "both", name, f"even:{steps}"))
        for name in ("random", "comb", "spread")
        for steps in atlastables.budgets(rows("characters"))
    ]
    assert max(planned) < 2e-5


def test_schedules_follow_the_dependence_as_is_said(page):
    for kind in KINDS:
        found = seen(kind)
        share = found["dtc"] / found["tc"]
        assert (share < 0.26) if kind in EARLY else (share > 2 / 3)
        for costs in random_order(kind).values():
            assert costs["dtc"] < costs["tc"]
            assert (costs["cosine"] < costs["even"]) == (kind in EARLY)
            assert kind in EARLY or min(costs, key=costs.get) == "even"
            assert costs["minimax"] - min(costs["tc"], costs["dtc"]) < 0.005
    sudoku = random_order("sudoku")
    assert [n for n, costs in sudoku.items() if costs["dtc"] < costs["even"]] == [n for n in sudoku if n >= 7]
    every = [costs for kind in KINDS for costs in random_order(kind).values()]
    assert sum(costs["minimax"] < min(costs["tc"], costs["dtc"]) for costs in every) > len(every) / 2
    paid = sorted(costs["minimax"] - costs["even"] for costs in (random_order(k)[16] for k in ("books", "characters")))
    assert f"in 16 evaluations, they cost {paid[0]:.2f} to {paid[1]:.2f} bits more than even sizes" in page


def test_the_loss_curves_show_what_is_said(page):
    for kind in ("books", "characters"):
        told = np.array(seen(kind)["distance"])
        assert told[1] > 100 * told[12:21].mean() > 0
    ends = np.array(seen("molecules")["distance"])
    assert ends[-1] > 2 * ends[12:21].mean()
    loss = seen("sudoku")["loss"]
    said = f"an empty cell costs {loss[0]:.2f} bits at first, and {loss[len(loss) // 5]:.2f} once a fifth"
    assert said in page
    curves = {kind: seen(kind)["loss"] for kind in ("molecules", "digits")}
    first, second = ([f"{value:.2f}" for value in loss[:2]] for loss in curves.values())
    assert f"from {first[0]} to {first[1]} bits with the first token, on digits from {second[0]} to {second[1]}" in page
    three = size.Optimal(3, Curve(curves["molecules"])).sizes(48)
    assert f"the best schedule on the curve of molecules reveals {three[0]}, {three[1]} and {three[2]} tokens" in page
    assert all(size.Optimal(6, Curve(loss)).sizes(len(loss))[0] == 1 for loss in curves.values())


def test_word_pieces_cost_what_is_said(page):
    few = {name: bits("books", "both", name, "even:16") for name in ("comb", "spread", "halton", "learned")}
    assert max(few.values()) - min(few.values()) < 0.004
    random, one = (bits("books", "both", "random", f"even:{n}") for n in (16, 256))
    assert f"about {random - few['comb']:.2f} bits less than random order" in page
    assert f"they cost {few['comb']:.3f} bits against {one:.3f}, which is {few['comb'] - one:.3f} more" in page
    assert f"The learned order costs {few['learned'] - one:.3f} more than revealing tokens one by one" in page
    assert abs(bits("books", "both", "comb", "even:64") - one) < 0.004
    errors = [float(row["over_error"]) for row in rows("books", "-advised") if float(row["over_error"])]
    assert all(0.0035 < error < 0.0045 for error in errors)
    lost = sorted(bits("books", "both", n, "even:16") - few["comb"] for n in ("confidence", "margin", "entropy"))
    assert f"cost {lost[0]:.1f} to {lost[-1]:.1f} bits more than the comb" in page
    causal = bits("books", "causal", "whole-comb", "even:16")
    assert causal < min(float(row["bits"]) for row in rows("books") if row["network"] == "both")
    left = float(atlastables.one_by_one(rows("books"), "left-to-right", "left-to-right")["bits"])
    assert f"The causal network costs {causal:.3f} bits in 16 evaluations" in page
    assert f"and the left-to-right network costs {left:.3f}" in page


def test_characters_cost_what_is_said(page):
    comb, learned = (bits("characters", "both", name, "even:16") for name in ("comb", "learned"))
    one = bits("characters", "both", "random", "even:256")
    whole = f"revealing characters one by one in random order costs {one:.3f}"
    assert f"A comb of 16 evaluations costs {comb:.3f} bits, and {whole}" in page
    assert f"{learned:.3f}" == f"{comb:.3f}"
    left = float(atlastables.one_by_one(rows("characters"), "left-to-right", "left-to-right")["bits"])
    longer = next(row for row in common.read("frontier.csv") if row["model"] == "left-to-right")
    assert f"({left:.3f} bits against {float(longer['bits']):.3f})" in page


def test_boards_are_solved_as_is_said(page):
    names = ("margin", "comb", "random", "confidence")
    share = {(name, n): score("sudoku", "both", f"{name}/even:{n}", "solved") for name in names for n in (7, 28)}
    few, more = ([f"{share[name, n]:.0f} %" for name in names[:3]] for n in (7, 28))
    assert (
        f"At temperature 1, in 7 evaluations, the margin rule solves {few[0]} of the boards, and a comb {few[1]}."
        in page
    )
    assert f"In 28 evaluations, they solve {more[0]} and {more[1]}, and random order solves {more[2]}." in page
    assert abs(share["confidence", 28] - share["margin", 28]) < 2
    blocks = score("sudoku", "both", "blocks-32/margin/even:14", "solved")
    many = spent("sudoku", "both", "blocks-32/margin/even:14")
    assert f"in {many:.0f} evaluations it solves {blocks:.0f} %" in page
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"with 28 evaluations per board, it solves {more[1]} of the boards, while the margin rule" in readme
    assert f"looks at the model's predictions, solves {more[0]}." in readme
    pair = (("causal", "whole-comb"), ("both", "comb"))
    causal, both = (bits("sudoku", *each, "even:3") for each in pair)
    assert f"(with a comb in 3 evaluations, {causal:.3f} bits against {both:.3f})" in page


def test_puzzles_and_molecules_are_worth_what_is_said(page):
    bound, advised = (score("countdown", "both", rule, "right") for rule in ("entropy/entropy-bound:0.1", "advised/8"))
    few = spent("countdown", "both", "entropy/entropy-bound:0.1")
    assert f"takes {few:.1f} evaluations solves {bound:.1f} % of the puzzles at temperature 1" in page
    assert f"the advised schedule of 8 evaluations solves {advised:.1f} %" in page
    short, comb = (score("countdown", "causal", f"whole-comb/even:{n}", "right") for n in (4, 8))
    for most, found in ((4.01, short), (8, comb)):
        looks = [r for r in rows("countdown", "-scores") if (r["network"], r["draw"]) == ("both", "temperature 1")]
        assert found > 100 * max(float(r["right"]) for r in looks if float(r["evaluations"]) <= most)
    assert f"the causal network does better than all of these: a comb of 4 evaluations solves {short:.1f} %" in page
    left = score("countdown", "left-to-right", "left-to-right/even:16", "right")
    assert (
        f"a comb of 8 evaluations solves {comb:.1f} %. The left-to-right network solves {left:.1f} % in 16 evaluations"
        in page
    )
    best, even = (bits("molecules", "both", *rule) for rule in (("advised", "3"), ("spread", "even:3")))
    assert f"{best:.3f} bits in 3 evaluations, while even sizes in the same order cost {even:.3f}" in page
    four = {r["rule"]: score("countdown", "both", r["rule"], "right") for r in rows("countdown", "-scores")
            if (r["network"], r["draw"]) == ("both", "temperature 1") and float(r["evaluations"]) <= 4.01}  # fmt: skip
    assert max(four, key=four.get) in ("advised/4", "dilated/rounds")  # which are the same
    error = score("countdown", "both", "advised/4", "right_error")
    near = (
        f"random order with cosine sizes ({four['random/cosine:4']:.1f} %) and margin ({four['margin/even:4']:.1f} %)"
    )
    assert f"advised schedule ({four['advised/4']:.1f} ± {error:.1f} %), but {near} do as well" in page
    assert four["advised/4"] - min(four["random/cosine:4"], four["margin/even:4"]) < error

    def new(network, rule, draw="temperature 1"):
        return f"{score('molecules', network, rule, 'new', draw):.1f} %"

    few = f"with {new('both', 'learned/even:12')} against {new('both', 'advised/12')} for the advised schedule"
    more = f"with {new('both', 'halton/even:24')} against {new('both', 'advised/24')}"
    assert f"{few}; in 24 evaluations it is the Halton order, {more}" in page
    bound = [new("both", f"entropy/entropy-bound:{bound}") for bound in (2, 0.5, 0.1)]
    many = [spent("molecules", "both", f"entropy/entropy-bound:{bound}") for bound in (2, 0.5, 0.1)]
    assert (
        f"{bound[0]} in {many[0]:.1f} evaluations, {bound[1]} in {many[1]:.0f}, and {bound[2]} in {many[2]:.0f}" in page
    )
    causal, left = new("causal", "whole-comb/even:24"), new("left-to-right", "left-to-right/even:48")
    assert f"The causal network reaches {causal} in 24. All of them stay below left to right ({left})" in page
    greedy = [
        (r["network"], r["rule"], 100 * float(r["new"])) for r in rows("molecules", "-scores") if r["draw"] == "greedy"
    ]
    assert 2 < max(share for _, rule, share in greedy if not rule.startswith("random")) < 3
    assert f"with cosine sizes in 24 evaluations, {new('both', 'random/cosine:24', 'greedy')} of the texts" in page


def test_what_to_use_when_follows_from_the_costs(page):
    for kind, most in (("characters", -0.03), ("books", 0.008)):
        steps = atlastables.budgets(rows(kind))
        comb, spread = ([bits(kind, "both", name, f"even:{n}") for n in steps] for name in ("comb", "spread"))
        assert all(one - other < most for one, other in zip(comb, spread, strict=True))
    assert all(abs(one - other) < 0.008 for one, other in zip(comb, spread, strict=True))
    assert "comb order, even sizes; on word pieces, spread order is about as good" in page
    scores = [
        r for r in rows("molecules", "-scores") if (r["network"], r["draw"]) == ("both", "temperature 1")
    ]  # fmt: skip
    assert {r["texts"] for r in scores} == {"1024"}
    assert "The table gives the percentage of 1,024 texts that are valid" in page
    steps = atlastables.budgets(rows("molecules"))
    assert steps[-2] == 48 / 4
    best = {}
    for n in steps:
        allowed = [r for r in scores if float(r["evaluations"]) <= 1.01 * n]
        best[n] = max(allowed, key=lambda r: float(r["new"]))["rule"]
    assert best == {n: f"learned/even:{n}" for n in steps[:-1]} | {24: "halton/even:24"}
    assert "for the most new molecules with at most one evaluation for every four tokens, a learned order" in page
    advised = {row["budget"]: float(row["bits"]) for row in rows("molecules", "-advised")}
    for row in rows("molecules"):
        if row["network"] == "both" and row["order"] != "advised":
            assert all(float(row["bits"]) > cost for n, cost in advised.items() if float(row["evaluations"]) <= int(n))
    for draw, fewest in (("temperature 1", 4.1), ("greedy", 3.9)):  # on countdown, a quarter of 16 is 4
        scored = [r for r in rows("countdown", "-scores") if (r["network"], r["draw"]) == ("both", draw)]
        for most in (4.6, 6.2, 7.1, 8, 9.2):
            allowed = [r for r in scored if float(r["evaluations"]) <= most]
            best = max(allowed, key=lambda r: float(r["right"]))
            assert float(best["evaluations"]) > fewest
            assert best["rule"].startswith(
                ("confidence/threshold", *([] if draw == "greedy" else ["entropy/entropy-bound"]))
            )
    assert "an entropy bound or a confidence threshold (greedy: a threshold), if you can afford more" in page
    for n in atlastables.budgets(rows("digits")):
        planned = {
            (r["order"], r["size"].partition(":")[0]): float(r["bits"])
            for r in rows("digits")
            if r["network"] == "both" and float(r["evaluations"]) == n and r["order"] != "advised"
        }
        assert min(planned, key=planned.get) in (("random", "cosine"), ("spread", "even"))
    assert "| handwritten digits | random order with cosine sizes, or spread order |" in page


def test_greedy_puzzles_are_solved_as_is_said(page):
    rule = "confidence/threshold:0.7"
    said = f"in {spent('countdown', 'both', rule, 'greedy'):.1f} evaluations, a threshold of 0.7 solves"
    shares = [f"{score('countdown', 'both', each, 'right', 'greedy'):.1f} %" for each in (rule, "advised/4")]
    assert f"{said} {shares[0]} of the puzzles and the advised schedule {shares[1]}." in page


def test_digits_cost_what_is_said(page):
    cosine, spread, comb = (
        bits("digits", "both", order, f"{sizes}:49")
        for order, sizes in (("random", "cosine"), ("spread", "even"), ("comb", "even"))
    )
    assert f"cosine sizes costs {cosine:.3f} bits per pixel, and spread order {spread:.3f}" in page
    one = atlastables.one_by_one(rows("digits"), "both", "random")
    nats = [784 * np.log(2) * float(one[key]) for key in ("bits", "error")]
    assert f"costs {float(one['bits']):.3f}, which is {nats[0]:.1f} ± {nats[1]:.1f} nats per image" in page
    assert f"**The comb loses here**: it costs {comb:.3f} bits" in page
    looking = [bits("digits", "both", name, "even:49") for name in ("confidence", "margin", "entropy")]
    later = [bits("digits", "both", name, "even:392") for name in ("confidence", "margin", "entropy")]
    said = f"cost far more ({min(looking):.3f} to {max(looking):.3f}, and still at least {min(later):.3f} in 392"
    assert f"Confidence, margin and entropy {said} evaluations)" in page
    assert not [
        r for r in rows("digits")
        if r["order"] in ("confidence", "margin", "entropy") and float(r["bits"]) < float(one["bits"]) + 0.06
    ]  # fmt: skip
    combs = [bits("digits", "both", "comb", f"even:{n}") for n in atlastables.budgets(rows("digits"))]
    assert min(combs) > float(one["bits"]) + 0.01
    assert f"costs {bits('digits', 'causal', 'whole-comb', 'even:49'):.3f} with a whole comb" in page


def test_masks_of_combs_are_worth_what_is_said(page):
    gains = {}
    for kind in ("molecules", "sudoku"):
        updates = seen(kind)["updates"]
        assert abs(updates["both"] - updates["both-comb"]) < 0.05 * updates["both"]
        steps = atlastables.budgets(rows(kind))[-2]
        gains[kind] = {
            order: bits(kind, "both", order, f"even:{steps}") - bits(kind, "both-comb", order, f"even:{steps}")
            for order in ("comb", "random")
        }
    assert (
        f"costs {gains['molecules']['comb']:.3f} bits less on molecules and {-gains['sudoku']['comb']:.3f} bits more"
        in page
    )
    assert f"On Sudoku, random order also costs {-gains['sudoku']['random']:.3f} bits more" in page


def test_every_name_of_a_table_is_for_readers(page):
    assert not re.search(r"stretched|blocks-32|explicit|entropy-bound", page)


def test_the_networks_were_trained_for_as_long_as_is_said():
    """The table of experiments/README.md, against what the results say of the networks."""
    told = (ROOT / "experiments" / "README.md").read_text(encoding="utf-8")
    for kind in ("sudoku", "digits", "countdown", "books", "molecules"):
        updates = seen(kind)["updates"]
        line = re.search(rf"^\| `{kind}` \|.* / .*$", told, re.MULTILINE)[0]
        assert f"| {updates['both']:,} / {updates['causal']:,} |" in line
