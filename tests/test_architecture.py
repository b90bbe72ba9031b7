"""The shape of the code base: levels of imports, module sizes, a light core."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "unmask"

# A module imports only from its own level or below.
LEVELS = {
    "atomic": 0, "backend": 0, "check": 0, "engine": 0, "loops": 0,
    "curve": 1, "information": 1, "distribution": 1,
    "gauge": 2, "size": 2, "sets": 2, "order": 2, "files": 2, "text": 2, "fused": 2, "muon": 2, "update": 2,
    "bounds": 3, "law": 3, "schedule": 3, "losses": 3, "prediction": 3, "trace": 3,
    "predict": 4, "draw": 4,
    "pace": 5, "nn": 5,
    "sample": 6, "masks": 6, "train": 6, "calibrate": 6,
    "evaluate": 7, "models": 7, "advise": 7,
    "objective": 8,
    "reproduce": 9,
    "plot": 10,
    "cli": 11, "adapters": 11, "app": 11,
}  # fmt: skip


# The page: what to show, how it looks, and Gradio; each layer knows nothing of those after it.
PAGE = (
    {"laws", "tradeoffs", "runs", "measured"},
    {"chart", "panels", "status", "links", "current"},
    {"fields", "tabs", "page"},
)


def test_the_page_is_made_in_layers():
    modules = {path.stem: path for path in (SOURCE / "app").glob("[a-z]*.py")}
    modules |= {f"tabs/{path.stem}": path for path in (SOURCE / "app" / "tabs").glob("*.py")}
    layer = {name: number for number, names in enumerate(PAGE) for name in names}
    assert {name.split("/")[0] for name in modules} == set(layer)
    for name, path in modules.items():
        own = layer[name.split("/")[0]]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            found = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if isinstance(node, ast.Import):
                found = [each.name for each in node.names]
            if found == ["unmask.app"]:
                found = [f"unmask.app.{each.name}" for each in node.names]
            for each in found:
                assert not each.startswith("gradio") or own == 2, (name, each)
                if each.startswith("unmask.app."):
                    assert layer[each.split(".")[2]] <= own, (name, each)


def test_the_levels_are_those_of_the_page_on_design():
    page = (SOURCE.parent.parent / "docs" / "design.md").read_text(encoding="utf-8")
    block = page.split("## Data flows one way")[1].split("A module imports")[0]
    said, level = {}, None
    for part in re.split(r"\n|→", block):
        found = re.match(r"\s*(\d+)?\s*((?:[a-z]+, )*[a-z]+)(?:\s{2,}|\s*$)", part)
        if found:
            level = int(found[1]) if found[1] else level
            said |= dict.fromkeys(found[2].split(", "), level)
    assert said == LEVELS


MODULES = sorted(SOURCE.rglob("*.py"))


def part_of(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return parts[0]


def imported_parts(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "unmask":
            names = node.module.split(".")[1:2] or [alias.name for alias in node.names]
            yield from names
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("unmask."))


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_modules_import_only_from_their_own_level_or_below(path):
    if path.name == "__init__.py" and path.parent == SOURCE:
        return
    level = LEVELS[part_of(path)]
    for name in imported_parts(path):
        if name not in LEVELS:
            continue  # a name of the package itself, such as its version
        assert LEVELS[name] <= level, f"{path.name} (level {level}) imports {name} (level {LEVELS[name]})"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_modules_stay_under_400_lines(path):
    assert len(path.read_text().splitlines()) <= 400


def test_importing_the_library_needs_neither_plots_nor_fields_nor_torch():
    code = (
        "import sys, unmask, unmask.size, unmask.distribution, unmask.evaluate, unmask.bounds, unmask.schedule; "
        "print([m for m in ('matplotlib', 'galois', 'torch') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_randomness_is_always_an_argument():
    for path in MODULES:
        text = path.read_text()
        assert "np.random.seed" not in text
        assert "np.random.rand" not in text
