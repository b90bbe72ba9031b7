"""The parts of the library and who imports whom: docs/figures/imports.svg.

python experiments/imports.py
"""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "unmask"

# From the ground up. A part imports from its own level or below; nothing is imported in a circle.
LEVELS: tuple[tuple[str, ...], ...] = (
    ("_errors", "_check", "_compiled", "_scipy", "_torch", "_atomic", "_files", "_memory", "_packages"),
    ("information", "distribution", "gauge", "engine"),
    ("size", "order", "revision", "bounds", "names", "schedule"),
    ("sequences", "predict", "sample"),
    ("evaluate", "calibration"),
    ("data", "models", "train"),
    ("paper", "plot"),
    ("words", "front"),
    ("cli", "app", "adapters"),
)
LEVEL = {part: number for number, parts in enumerate(LEVELS) for part in parts}
# Where a part stands in the figure, so that no arrow runs behind another part.
_ACROSS = {
    "_errors": 0.05, "_check": 0.16, "_compiled": 0.28, "_scipy": 0.39, "_packages": 0.5,
    "_torch": 0.61, "_atomic": 0.72, "_files": 0.83, "_memory": 0.94,
    "information": 0.12, "distribution": 0.38, "gauge": 0.62, "engine": 0.92,
    "order": 0.04, "size": 0.2, "revision": 0.36, "bounds": 0.52, "names": 0.68, "schedule": 0.84,
    "sequences": 0.12, "predict": 0.4, "sample": 0.7, "evaluate": 0.5, "calibration": 0.84,
    "data": 0.05, "models": 0.66, "train": 0.94,
    "paper": 0.12, "plot": 0.34, "words": 0.52, "front": 0.8, "cli": 0.16, "app": 0.44, "adapters": 0.8,
}  # fmt: skip
# The last level's parts do not know each other: only the command that opens the page knows the page.
ALLOWED = {("cli/explore.py", "app")}


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """The modules of ours that a file imports when it runs, each as its part and its full name."""
    yield from _imports(ast.parse(path.read_text(encoding="utf-8")))


def _imports(node: ast.AST) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue  # read by people and pyright, never run
        names: list[str] = []
        if isinstance(child, ast.Import):
            names = [each.name for each in child.names]
        elif isinstance(child, ast.ImportFrom) and child.module == "unmask":
            names = [f"unmask.{each.name}" for each in child.names]
        elif isinstance(child, ast.ImportFrom) and child.module:
            names = [child.module]
        for name in names:
            parts = name.split(".")
            if parts[0] == "unmask" and len(parts) > 1 and parts[1] in LEVEL:
                yield parts[1], name
        yield from _imports(child)


def part_of(path: Path) -> str:
    """The part that a file is in."""
    part = path.relative_to(SOURCE).with_suffix("").parts[0]
    return "cli" if part == "__main__" else part  # `python -m unmask` is the command line


def edges() -> set[tuple[str, str]]:
    """Pairs of parts of which the first imports the second."""
    found: set[tuple[str, str]] = set()
    for path in SOURCE.rglob("*.py"):
        own = part_of(path)
        if own in LEVEL:
            found |= {(own, part) for part, _ in imports(path) if part != own}
    return found


def draw(path: Path) -> None:
    """The levels from the ground up, with an arrow for each import that no other chain of imports implies."""
    from unmask import plot

    place = {part: (_ACROSS[part], LEVEL[part]) for part in LEVEL}
    drawn = {edge for edge in edges() if LEVEL[edge[1]] > 0}
    with plot.sheet(1, (9.0, 8.0), [path]) as axes:
        ax = axes[0]
        ax.axis("off")
        ax.set_xlim(0, 1)
        ax.set_ylim(-0.5, len(LEVELS) - 0.5)
        boxes = {}
        for part, (x, y) in place.items():
            look = {"boxstyle": "round,pad=0.35", "facecolor": "#eef3f7", "edgecolor": "#0072B2", "linewidth": 1.2}
            boxes[part] = ax.text(x, y, part, ha="center", va="center", bbox=look, zorder=3).get_bbox_patch()
        for above, below in sorted(drawn - _implied(drawn)):
            bend = 0.25 if LEVEL[above] == LEVEL[below] else 0.0
            style = {"arrowstyle": "-|>", "color": "#7d8a95", "linewidth": 1.2, "mutation_scale": 13}
            ends = {"patchA": boxes[above], "patchB": boxes[below], "shrinkA": 2, "shrinkB": 2}
            arrow = {**style, **ends, "connectionstyle": f"arc3,rad={bend}"}
            ax.annotate("", place[below], place[above], arrowprops=arrow, zorder=2)


def _implied(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those pairs that follow from two or more others."""
    below: dict[str, set[str]] = {}
    for above, under in pairs:
        below.setdefault(above, set()).add(under)

    def reached(part: str) -> set[str]:
        found: set[str] = set()
        for under in below.get(part, set()):
            found |= {under} | reached(under)
        return found

    return {(a, c) for a, c in pairs if any(c in reached(b) for b in below[a] if b != c)}


if __name__ == "__main__":
    draw(Path(__file__).parent.parent / "docs" / "figures" / "imports.svg")
