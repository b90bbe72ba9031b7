"""Who did what: one page says it, and what is claimed as ours is claimed nowhere but there and in the README."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
ARXIV = re.compile(r"\b2\d{3}\.\d{5}\b")
# What others did first, by the name it goes by and where it is to be found.
WORKS = {
    "DUEL": "2603.01367",
    "ARDM": "2110.02037",
    "ARMD": "2601.16971",
    "PAR": "2412.15119",
    "LPD": "2507.01957",
    "Bisection": "2606.22976",
    "Halton": "2503.17076",
    "Oracle predictors": "2602.19619",
    "choose then sample": "2510.04525",
    "σ-GPT": "2404.09562",
    "AO-GPT": "2506.19935",
    "Eso-LM": "2506.01928",
}
OURS = (
    "exact minimax schedules with the proof that they are optimal",
    "optimal sizes for a table of losses under any blind order",
    "the exhaustive order search",
    "forecasts that hold",
    "guarantees reported",
    "a sampler that takes 1.01 times as long as the forward pass",
    "the exact price of training under a schedule",
)


def test_the_page_names_the_works_that_parts_of_this_were_begun_by():
    begun = PAGE.partition("## First done by others")[2]
    for name, number in WORKS.items():
        assert any(name in row and number in row for row in begun.splitlines()), name


def test_what_is_nowhere_else_is_one_list():
    ours = re.findall(r"^- \*\*(.*?)\*\*", PAGE.partition("## First done by others")[0], re.MULTILINE)
    assert [each.lower() for each in ours] == list(OURS)
    paragraph = re.search(r"\*\*You will find these nowhere else\*\*.*?\n\n", README, re.DOTALL)[0].replace("\n", " ")
    claimed = paragraph.partition(": ")[2].partition(". ")[0].replace("1.01", "1,01").split(", ")
    assert len(claimed) == len(OURS)
    for mine, each in zip(OURS, claimed, strict=True):
        assert mine.replace("1.01", "1,01") in each, each


def test_nowhere_else_is_said_of_nothing_else():
    texts = [*ROOT.glob("*.md"), ROOT / "CITATION.cff", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    claim = re.compile(r"nowhere\s+else", re.IGNORECASE)
    found = {str(path.relative_to(ROOT)): len(claim.findall(path.read_text(encoding="utf-8"))) for path in texts}
    assert {name: count for name, count in found.items() if count} == {"README.md": 1, "docs/references.md": 1}


def test_every_work_that_a_docstring_cites_by_its_number_is_on_the_page():
    known = set(ARXIV.findall(PAGE))
    for path in (ROOT / "src").rglob("*.py"):
        cited = re.findall(r"arXiv\s+(2\d{3}\.\d{5})", path.read_text(encoding="utf-8"))
        assert set(cited) <= known, path
