"""The tab *Results*: what the package ships is what the committed tables say."""

import csv
import importlib
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from unmask import InputError
from unmask.app import outcomes
from unmask.app.data import results

FOLDER = Path(__file__).parent.parent / "experiments"
KINDS = ("books", "characters", "sudoku", "countdown", "molecules", "digits")
# For each collection: which rows of its table it has, and the columns of work and cost.
TABLES = {
    "frontier": (lambda row: True, "steps", "bits"),
    "text8": (lambda row: True, "steps", "bits"),
    "oracle": (lambda row: row["chain"] == "1" and row["evaluations"], "evaluations", "bits"),
    "oracle-2": (lambda row: row["chain"] == "2" and row["evaluations"], "evaluations", "bits"),
    "blocks": (lambda row: True, "evaluations", "bits"),
    "revision": (lambda row: row["rule"] != "real text", "evaluations", "judged"),
    **{f"atlas-{kind}": (lambda row: True, "evaluations", "bits") for kind in KINDS},
}


@pytest.fixture
def shipped(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("shipped")


def rows(name):
    with (FOLDER / "results" / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_package_ships_what_the_script_makes(shipped):
    assert shipped.PLACE.read_text(encoding="utf-8") == shipped.text(), "run: python experiments/shipped.py"


@pytest.mark.parametrize("key", list(TABLES))
def test_every_row_of_a_table_is_shown_once(key):
    wanted, work, cost = TABLES[key]
    each = results.collections()[key]
    table = sorted((float(row[work]), float(row[cost])) for row in rows(each.source) if wanted(row))
    assert sorted((value.evaluations, value.cost) for one in each.series for value in one.values) == table
    assert [one.main for one in each.series] == sorted((one.main for one in each.series), reverse=True)
    assert 5 <= len(each.chosen("main")) <= 9
    assert each.chosen("all") == each.series


def test_the_titles_of_kinds_are_those_of_the_atlas(shipped, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER.parent))
    kinds = pytest.importorskip("experiments.atlas.kinds", reason="the atlas needs packages of its own")
    assert {name: kind.title for name, kind in kinds.KINDS.items()} == {
        name: called.title for name, called in shipped.KINDS.items()
    }


def test_a_kind_that_is_measured_becomes_a_collection(shipped, monkeypatch, tmp_path):
    for path in (FOLDER / "results").glob("*.csv"):
        if path.name.removeprefix("atlas-").removesuffix(".csv") not in shipped.KINDS:
            shutil.copy(path, tmp_path)
    columns = "network,order,size,evaluations,passes,bits,error,over,over_error"
    made = [
        "left-to-right,left-to-right,even:64,64,1,0.5,0.01,0,0",
        "causal,whole-comb,even:8,8,1,0.6,0.01,0.1,0.01",
        "both,comb,even:8,8,8,0.75,0.01,0.25,0.01",
        "both,random,even:4,4,4,0.9,0.01,0.4,0.01",
        "both,random,even:8,8,8,0.8,0.01,0.3,0.01",
        "both,confidence,even:8,8,8,0.85,0.01,0.35,0.01",
        "both,entropy,entropy-bound:1,19.5,19.5,0.72,0.01,0.22,0.01",
        "both,confidence,threshold:0.9,20.5,20.5,0.7,0.01,0.2,0.01",
        "both,advised,8,8,8,0.65,0.01,0.15,0.01",
        "both,blocks-32/margin,even:2,4,4,0.95,0.01,0.45,0.01",
    ]
    (tmp_path / "atlas-sudoku.csv").write_text("\n".join([columns, *made]) + "\n")
    monkeypatch.setattr(shipped.common, "RESULTS", tmp_path)
    *_, last = shipped.collections()
    found = results._collection(last)
    assert (found.key, found.title, found.unit) == ("atlas-sudoku", "Atlas: Sudoku", "bits per token")
    assert {one.name for one in found.chosen("main")} == {
        "left to right: one by one", "causal: whole-comb, even", "both ways: comb, even", "both ways: random, even",
        "both ways: confidence, even", "both ways: confidence threshold", "both ways: entropy bound",
        "both ways: advised",
    }  # fmt: skip
    assert found.counted("passes")
    assert found.takes == (
        "With at most 8 evaluations, the cheapest is “causal: whole-comb, even” with 0.600 bits per token. “both ways: "
        "random, even” costs 0.800."
    )


def test_a_rule_that_should_be_shown_first_and_was_not_measured_is_an_error(shipped):
    row = {"order": "comb", "size": "even:8", "evaluations": "8", "bits": "0.5", "error": ""}
    with pytest.raises(ValueError, match=r"there is no row for \[\('', 'comb, evn'\)\]"):
        shipped.grouped([row], shipped.rule_of, [("", "comb, evn")])


def test_every_collection_is_a_picture_with_its_sentences_and_all_of_its_numbers():
    for key, each in results.collections().items():
        for axis in results.AXES:
            view = results.compare([key], axis, "all")
            page = ET.fromstring(f"<div>{outcomes.compared(view)}</div>")
            words = "".join(page.itertext())
            assert each.sees in words
            assert each.takes in words
            assert each.sees.endswith(".")
            assert each.takes.endswith(".")
            assert len(list(page.iter("tr"))) == 1 + len(view.rows())
            assert not any("nan" in path.get("d") for path in page.iter("path"))
            unit = (
                "passes over the text" if axis == "passes" and key.startswith(("frontier", "atlas")) else "evaluations"
            )
            assert page.find(".//figure").get("data-unit") == unit


def test_several_collections_are_compared_and_saved_in_one_order():
    view = results.compare(["text8", "frontier"], "passes", "main")
    assert [each.key for each in view.collections] == ["frontier", "text8"]
    assert {row["collection"] for row in view.rows()} == {"frontier", "text8"}
    assert view.record()["collections"][0]["source"] == "experiments/results/frontier.csv"
    first = view.rows()[0]
    assert (first["model"], first["rule"], first["cost"]) == ("left to right", "one by one", 1.3907)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            ([], "evaluations", "main"),
            "Argument 'results' must be at least one collection. Choose the collection that you want to see.",
        ),
        ((["frontie"], "evaluations", "main"), "Did you mean 'frontier'?"),
        ((["frontier"], "time", "main"), "Argument 'against' must be"),
        ((["frontier"], "passes", "none"), "Argument 'rules' must be"),
    ],
)
def test_what_is_not_there_is_one_sentence(given, sentence):
    with pytest.raises(InputError) as error:
        results.compare(*given)
    assert sentence in str(error.value)
