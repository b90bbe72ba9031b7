"""The shape of the code base: levels of imports, module sizes, a light core."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "unmask"
sys.path.insert(0, str(ROOT / "experiments"))

import imports  # noqa: E402 - the script that draws them

sys.path.pop(0)


# The page: what to show, how it looks, and Gradio; each layer knows nothing of those after it.
PAGE = (
    {"data"},
    {
        "axis",
        "labels",
        "shapes",
        "lines",
        "chart",
        "panels",
        "outcomes",
        "player",
        "glossary",
        "status",
        "links",
        "current",
        "guard",
        "server",
    },
    {"fields", "events", "tabs", "page"},
)


def test_the_page_is_made_in_layers():
    modules = {path.stem: path for path in (SOURCE / "app").glob("[a-z]*.py")}
    modules |= {f"{path.parent.name}/{path.stem}": path for path in (SOURCE / "app").glob("*/*.py")}
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


MODULES = sorted(SOURCE.rglob("*.py"))


def test_the_levels_are_those_of_the_page_on_design():
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    block = page.split("## The parts")[1].split("A part imports")[0]
    said = re.findall(r"^    (\d)   ([a-z_]+(?:, [a-z_]+)*)", block, flags=re.M)
    assert [(int(level), set(names.split(", "))) for level, names in said] == [
        (level, set(names)) for level, names in enumerate(imports.LEVELS)
    ]


def test_every_part_has_a_level():
    found = {imports.part_of(path) for path in MODULES} - {"__init__"}
    assert found == set(imports.LEVEL)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_parts_import_only_from_their_own_level_or_below(path):
    if path.name == "__init__.py" and path.parent == SOURCE:
        return
    own = imports.part_of(path)
    for part, name in imports.imports(path):
        assert imports.LEVEL[part] <= imports.LEVEL[own], f"{path.name} imports {name}"


def test_nothing_is_imported_in_a_circle():
    below = {}
    for above, under in imports.edges():
        below.setdefault(above, set()).add(under)
    tuple(TopologicalSorter(below).static_order())  # raises if there is one


def sideways(path):
    """Imports between the parts of the last level."""
    own = imports.part_of(path)
    if own not in imports.LEVELS[-1]:
        return []
    others = [part for part, _ in imports.imports(path) if part in imports.LEVELS[-1] and part != own]
    return [part for part in others if (str(path.relative_to(SOURCE)), part) not in imports.ALLOWED]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_the_surfaces_do_not_know_each_other(path):
    assert not sideways(path)


def test_an_edge_sideways_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(imports, "SOURCE", tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    (tmp_path / "app").mkdir()
    file = tmp_path / "app" / "fields.py"
    for line in (
        "from unmask.cli.group import MISTAKES",
        "from unmask import cli",
        "def f():\n    import unmask.cli.plan",
    ):
        file.write_text(line)
        assert sideways(file) == ["cli"]
    file.write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from unmask import cli")
    assert not sideways(file)


def test_the_figure_shows_every_part():
    figure = (ROOT / "docs" / "figures" / "imports.svg").read_text(encoding="utf-8")
    for part in imports.LEVEL:
        assert f">{part}<" in figure


def test_a_class_name_means_one_thing():
    """Private names may repeat; a public one that two modules define would mean two things."""
    met = {}
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                met.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    assert {name: places for name, places in met.items() if len(places) > 1} == {}


SURFACES = (*imports.LEVELS[-1],)


def test_classes_are_abstract_or_final():
    """Whoever wants a variation writes a new class or a wrapper. Exceptions and enumerations are what they are."""
    kinds = {}
    for path in MODULES:
        if imports.part_of(path) in SURFACES:
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                kinds[node.name] = (path, node)
    for name, (path, node) in kinds.items():
        bases = {ast.unparse(base).split("[")[0] for base in node.bases}
        if bases & {"Enum", "NamedTuple", "Protocol", "ValueError"}:
            continue
        final = any(ast.unparse(each).endswith("final") for each in node.decorator_list)
        abstract = "ABC" in bases or any(
            ast.unparse(each).endswith("abstractmethod")
            for part in ast.walk(node)
            for each in getattr(part, "decorator_list", [])
        )
        derived = any(name in {ast.unparse(base) for base in other.bases} for _, other in kinds.values())
        assert final or abstract or derived, f"{path.name}: {name} is neither abstract nor final"
        assert not (final and derived), name


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_modules_stay_under_400_lines(path):
    assert len(path.read_text().splitlines()) <= 400


def test_importing_the_library_needs_neither_plots_nor_fields_nor_torch():
    code = (
        "import sys, unmask, unmask.size, unmask.distribution, unmask.evaluate, unmask.bounds, unmask.schedule; "
        "unmask.expected_kl, unmask.advise, unmask.Calibration, unmask.Curve; "
        "import unmask.words.schedules, unmask.words.data, unmask.words.inputs, unmask.words.models; "
        "print([m for m in ('matplotlib', 'galois', 'torch', 'numba') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_randomness_is_always_an_argument():
    for path in MODULES:
        text = path.read_text()
        assert "np.random.seed" not in text
        assert "np.random.rand" not in text
