"""The page that maps the paper to the code: every statement is on it, and everything that it names exists."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
# What the paper numbers, and what it names without a number.
NUMBERED = (
    "Definition 1",
    *(f"Theorem {number}" for number in (1, 2)),
    *(f"Lemma {number}" for number in range(1, 8)),
    "Remark 1",
    *(f"Figure {number}" for number in (1, 2, 3)),
)
NAMED = (
    "General framework",
    "TC-adaptive scheme",
    "DTC-adaptive scheme",
    "Forward (masking) process",
    "Reverse (unmasking) process",
    "True conditional marginals",
    "Training objective",
    "Decoupling",
    "Rates",
    "Iteration complexity",
    "Schedule choice",
    "Low-TC example",
    "Low-DTC example",
    "Reed–Solomon experiment",
)
ROWS = {
    cells[0]: cells[1:]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith(("| in the paper", "|---"))
    for cells in [[cell.strip() for cell in line.strip("|").split(" | ")]]
}
TESTS = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("test_*.py"))


def found(name):
    """What a dotted name stands for, as a reader would import it."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            value = getattr(value, part)
        return value
    raise AssertionError(name)


def test_every_statement_of_the_paper_is_on_the_page_in_its_order():
    assert tuple(name for name in ROWS if name in NUMBERED) == NUMBERED
    assert set(NAMED) <= set(ROWS)
    assert tuple(name for name in ROWS if re.fullmatch(r"[A-Z][a-z]+ \d+", name)) == NUMBERED


@pytest.mark.parametrize("name", ROWS)
def test_what_a_statement_is_mapped_to_exists(name):
    _, functions, tests, page = ROWS[name]
    objects = [found(each) for each in re.findall(r"`([\w.]+)`", functions)]
    assert objects
    assert all(callable(each) for each in objects)
    named = re.findall(r"`(test_\w+)`", tests)
    assert named
    for test in named:
        assert f"def {test}(" in TESTS, test
    ((place, _, heading),) = re.findall(r"\]\(([\w/]+\.md)(#([\w-]+))?\)", page)
    text = (ROOT / "docs" / place).read_text(encoding="utf-8")
    anchors = {
        re.sub(r"[^\w -]", "", line.lower()).strip().replace(" ", "-") for line in re.findall("^#+ (.*)$", text, re.M)
    }
    assert not heading or heading in anchors, heading
