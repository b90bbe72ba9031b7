"""The figures of the documentation: each script's numbers bear out what its figure is said to show."""

import csv
import importlib
import subprocess
import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from unmask.distribution import LinearCode

FOLDER = Path(__file__).parent.parent / "experiments"
BUILTIN = FOLDER.parent / "src" / "unmask" / "models" / "builtin"
BLIND = ("cosine", "tc", "dtc", "minimax-tc", "minimax-dtc", "minimax-min", "universal", "even")
SCRIPTS = ("overhang", "minimax", "both", "smooth", "readme")


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def test_the_papers_scheme_is_flat_and_minimax_flat_at_about_half(script):
    ratios = script("overhang").compute()
    tc, best = ratios["tc"]["tc"], ratios["tc"]["minimax-tc"]
    assert np.ptp(tc) < 1e-12
    assert np.ptp(best) < 1e-12
    assert 0.5 < best[0] / tc[0] < 0.6
    assert 0.45 < ratios["dtc"]["minimax-dtc"].max() / ratios["dtc"]["dtc"].max() < 0.55
    for key in ("tc", "dtc"):
        assert min(ratios[key], key=lambda name: ratios[key][name].max()) == f"minimax-{key}"


def test_minimax_makes_half_the_error_of_the_papers_scheme_on_its_own_codes(script):
    low_tc, low_dtc = script("minimax").compute((50, 500)).values()
    assert low_tc["tc"][1] == pytest.approx(0.1772, abs=5e-5)
    assert low_tc["minimax-tc"][1] <= 0.54 * low_tc["tc"][1]
    assert low_dtc["minimax-dtc"][1] <= 0.54 * low_dtc["dtc"][1]
    for panel, key in ((low_tc, "tc"), (low_dtc, "dtc")):
        assert np.all(panel[f"minimax-{key}"] < 0.6 * panel[key])
        assert panel["minimax-min"][1] < 1.06 * panel[key][1]


def test_one_schedule_is_within_six_per_cent_of_both_of_the_papers(script):
    factors = script("both").compute((500,))
    better = min(factors["tc"]["tc"][0], factors["dtc"]["dtc"][0])
    for key in ("tc", "dtc"):
        assert factors[key]["minimax-min"][0] < 1.06 * better
        assert factors[key]["universal"][0] < 1.2 * better
        other = "dtc" if key == "tc" else "tc"
        assert factors[key][other][0] > 100 * factors[key][key][0]
        assert factors[key][f"minimax-{other}"][0] > 100 * factors[key][key][0]


def test_on_smooth_curves_even_beats_the_papers_schemes_and_optimal_beats_all(script):
    chain, coin = script("smooth").compute().values()
    for panel in (chain, coin):
        for values in panel.values():
            assert np.all(panel["optimal"] <= values * (1 + 1e-12))
        assert np.all(panel["square-root"] < 1.15 * panel["optimal"])
        assert np.all(panel["even"] < panel["tc"])
    for name in ("tc", "dtc", "minimax-tc", "minimax-dtc", "minimax-min"):
        assert np.all(chain["even"] < chain[name])
    # But not always: where dependence is spent on the first tokens, the schedule made for low DTC wins over even sizes.
    assert np.all(coin["minimax-dtc"][1:] < coin["even"][1:])


def test_the_picture_of_the_readme_shows_no_winner_without_a_curve(script):
    code, chain = script("readme").compute().values()
    for panel in (code, chain):
        assert all(np.all(panel["optimal"] <= values * (1 + 1e-12)) for values in panel.values())
    assert np.all(code["tc"] < code["even"])
    assert np.all(code["minimax-min"] < code["even"])
    assert np.all(chain["even"] < chain["minimax-min"])
    assert np.all(chain["minimax-min"] < chain["tc"])


def test_the_stored_tree_is_what_the_script_draws(tmp_path):
    subprocess.run([sys.executable, FOLDER / "choosing.py", tmp_path], check=True)
    for name in ("choosing.svg", "choosing-tall.svg"):
        stored = FOLDER.parent / "docs" / "figures" / name
        assert (tmp_path / name).read_text() == stored.read_text()


@pytest.mark.parametrize("word", ["--help", "--nosuch", "-x"])
def test_a_word_that_begins_with_a_dash_is_no_folder(tmp_path, word):
    """Figures were drawn into a folder of that name."""
    words = [sys.executable, FOLDER / "choosing.py", word]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == (0 if word == "--help" else 2)
    assert (done.stdout + done.stderr).startswith("usage: choosing.py [-h] [folder]\n")
    assert not list(tmp_path.iterdir())


def test_tables_have_numbers_to_the_right_and_words_to_the_left(script):
    body = [["a", "comb 16", "–", "the same", "**1.5**"], ["b", "2 layers", "1.2 ± 0.1", "+0.3", "4 %"]]
    table = script("common").markdown(["name", "rule", "bits", "more", "share"], body)
    assert table.splitlines()[1] == "| --- | --- | ---: | ---: | ---: |"


def test_the_moving_picture_shows_the_texts_that_were_written(script):
    writing = script("writing")
    texts = writing.stored()
    for tokens in texts.values():
        counts = np.bincount([token.step for token in tokens], minlength=writing.STEPS)
        assert set(counts) == {writing.LENGTH // writing.STEPS}
        lines = writing.wrapped(tokens)
        assert [token for line in lines for token in line] == tokens
        assert max(len("".join(token.character for token in line).rstrip()) for line in lines) <= writing.COLUMNS
    for name, tall in (("writing", False), ("writing-tall", True)):
        drawn = (FOLDER.parent / "docs" / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        assert drawn == writing.picture(texts, tall=tall)
        assert len(drawn) < 150_000
        assert "prefers-reduced-motion" in drawn
        assert "prefers-color-scheme" in drawn


def test_the_curve_of_blocks_is_that_of_the_linear_code(script):
    generator = np.zeros((9, 12), dtype=int)
    for block in range(3):
        rows, columns = slice(3 * block, 3 * block + 3), slice(4 * block, 4 * block + 3)
        generator[rows, columns] = np.eye(3)
        generator[rows, 4 * block + 3] = 1
    expected = LinearCode(generator, 3).curve().loss
    assert script("readme").blocks(12, 4, 3).loss == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_stored_figure_and_table_are_what_the_script_makes(name, tmp_path):
    subprocess.run([sys.executable, FOLDER / f"{name}.py", tmp_path], check=True)
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / f"{name}.svg").read_text().startswith("<?xml")
    assert (FOLDER.parent / "docs" / "figures" / f"{name}.svg").exists()
    made, stored = (
        list(csv.reader(path.open())) for path in (tmp_path / f"{name}.csv", FOLDER / f"results/{name}.csv")
    )
    assert len(made) == len(stored)
    for row, kept in zip(made, stored, strict=True):
        assert row[:-1] == kept[:-1] or name == "both"
        assert row == kept or float(row[-1]) == pytest.approx(float(kept[-1]), rel=1e-4, abs=1e-9)


def test_what_people_think_of_are_orders_of_all_residues(script):
    for residues in script("search").GUESSES.values():
        assert sorted(residues) == list(range(16))


# What was measured once on the built-in model, on a GPU: the committed numbers bear out what the pages say of them.


def rows(name):
    with (FOLDER / "results" / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def costs():
    """Order, size and steps -> bits per character, excess in nats per text, its standard error."""
    return {
        (r["order"], r["size"], r["steps"]): tuple(float(r[key]) for key in ("bits", "excess", "excess_error"))
        for r in rows("text8.csv")
        if r["excess"]
    }


@pytest.mark.parametrize("period", [3, 4])
def test_the_search_finds_the_best_of_all_periodic_schedules(script, period):
    """Against trying every way to divide the residues among the steps."""
    search = script("search")
    table = np.random.default_rng(0).random((1 << period, period))
    cost = search.costs(table)
    for steps in range(1, period + 1):
        ways = [
            [[r for r in range(period) if way[r] == k] for k in range(steps)]
            for way in product(range(steps), repeat=period)
            if len(set(way)) == steps
        ]
        least = min(ways, key=lambda groups: search.predicted(table, groups))
        assert search.best(table, cost, steps) == least
        assert cost[steps, -1] == pytest.approx(search.predicted(table, least), abs=1e-12)


def test_learned_orders_are_the_best_of_two_laws_with_every_seed(script):
    """From the committed numbers, over 5 and 3 seeds; and the Ising grid again, with a seed that is not among them."""
    with (FOLDER / "results" / "dependence.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    cost = {(row["law"], int(row["steps"]), row["order"]): float(row["excess"]) for row in rows}
    known = ("random", "comb", "spread", "comb-grid", "spread-grid")
    # Eight samples of boards are too few for every set: there the order is that of pairs, refined by exchanges.
    chosen = {"ising": "learned", "shidoku": "pairs, refined"}
    learned = [row for row in rows if row["order"] == chosen[row["law"]]]
    assert len(learned) == 7
    for row in learned:
        law, steps = row["law"], int(row["steps"])
        best, least = cost[law, steps, "best"], min(cost[law, steps, name] for name in ("random", "comb", "spread"))
        assert int(row["seeds"]) >= 3
        assert float(row["excess"]) <= 1.05 * best + 1e-9
        assert not row["worst"] or float(row["worst"]) <= 1.05
        assert float(row["excess"]) < 0.95 * least
        for label in ("pairs", "learned"):
            assert cost[law, steps, label] <= min(cost[law, steps, name] for name in known) + 1e-9
    module = script("dependence")
    _, table = module.law("ising")
    found = module.every_set("ising", 17)
    for steps in (3, 4, 6):
        sizes = [12 // steps] * steps
        assert table.excess(found.best(sizes)) <= 1.05 * table.excess(table.best(sizes))


@pytest.mark.parametrize("block", [None, 16])
@pytest.mark.parametrize("steps", [1, 2, 4, 8])
def test_a_rule_that_looks_reads_as_many_positions_as_is_counted(script, block, steps):
    """What a rule that looks at predictions asks for, counted: in blocks, it is asked about one block at a time."""
    torch = pytest.importorskip("torch")
    from unmask import ExactPredictor, Sampler, Schedule, order, size
    from unmask.distribution import Markov
    from unmask.predict import MaskPredictor
    from unmask.predict.wrappers import Wrapper

    @dataclass(frozen=True, eq=False)
    class Counting(Wrapper):
        predictor: MaskPredictor
        read: ClassVar[int] = 0

        def __call__(self, tokens, masked, rows=None):
            type(self).read += int(masked.sum()) if rows is None else len(rows)
            return self.predictor(tokens, masked, rows)

    which = order.Margin() if block is None else order.Blocks(order.Margin(), block)
    with torch.no_grad():
        trace = Sampler(
            Counting(ExactPredictor(Markov.sticky(5, 0.4, 64))), Schedule(size.Even(steps), which)
        ).run((2, 64), rng=0)  # fmt: skip
    blocks = 1 if block is None else 64 // block
    assert trace.evaluations.tolist() == [steps * blocks] * 2
    assert script("common").looked_at(steps * blocks, blocks) == Counting.read / (2 * 64)
