"""The moving picture of the first page: both built-in models write a text in 16 steps, side by side from one seed.

An SVG that moves by itself (CSS animations, no script). It has colours for light and for dark pages, and readers who
asked for less motion see the finished texts. `writing.svg` has the models side by side, `writing-tall.svg` one above
the other, for phones. The texts are kept in `results/writing.csv`, from which the tests draw the pictures again.
"""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import common

from unmask import models, order, size
from unmask._atomic import replacing
from unmask.sample import Sampler
from unmask.schedule import Schedule

SEED, LENGTH, STEPS, COLUMNS = 19, 192, 16, 26
TITLES = {"causal": "causal in the schedule", "builtin": "looking both ways"}
# One step, and how long the finished text stays, in seconds.
PACE, HOLD = 0.55, 4.2
# A character's cell and the edges around the text, in pixels.
WIDE, HIGH, EDGE, HEAD, FOOT = 9.4, 22.0, 18.0, 46.0, 40.0
STYLE = """
:root { --page: #ffffff; --edge: #dfe3ec; --text: #1b1f2a; --quiet: #5c6576; --new: #3949ab; --mask: #d3d8e4; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14161d; --edge: #2b303c; --text: #e4e7ee; --quiet: #9aa3b5; --new: #92a4ff; --mask: #373d4b; }
}
.page { fill: var(--page); stroke: var(--edge); }
.title { font: 600 14px system-ui, sans-serif; fill: var(--text); }
.quiet { font: 12px system-ui, sans-serif; fill: var(--quiet); }
.t { font: 15px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: var(--text); }
.b { fill: var(--new); }
.m { fill: var(--mask); opacity: 0; }
.r { fill: var(--mask); }
"""


class Token(NamedTuple):
    """A character of a text, and the step that revealed it, from 0."""

    step: int
    character: str


def compute() -> dict[str, list[Token]]:
    """Model -> the characters of its text."""
    texts: dict[str, list[Token]] = {}
    for name in TITLES:
        model = models.load(name)
        trace = Sampler(model.predictor, Schedule(size.Even(STEPS), order.Comb())).run((1, LENGTH), rng=[SEED])
        characters = model.texts(trace)[0]
        texts[name] = [Token(*pair) for pair in zip(trace.revealed[0].tolist(), characters, strict=True)]
    return texts


def stored() -> dict[str, list[Token]]:
    """The same, from the committed table."""
    texts: dict[str, list[Token]] = {name: [] for name in TITLES}
    for row in common.read("writing.csv"):
        texts[row["model"]].append(Token(int(row["step"]), row["character"]))
    return texts


def wrapped(tokens: Sequence[Token]) -> list[list[Token]]:
    """Lines that end between words."""
    lines: list[list[Token]] = [[]]
    word: list[Token] = []
    for token in (*tokens, Token(0, " ")):
        word.append(token)
        if token.character == " ":
            if len(lines[-1]) + len(word) - 1 > COLUMNS:
                lines.append([])
            lines[-1] += word
            word = []
    lines[-1].pop()  # the space that ended the last word
    return lines


def picture(texts: dict[str, list[Token]], *, tall: bool) -> str:
    """The SVG, with the models one above the other or side by side."""
    panels = {name: wrapped(tokens) for name, tokens in texts.items()}
    rows = max(map(len, panels.values()))
    width, height = COLUMNS * WIDE + 2 * EDGE, HEAD + rows * HIGH + EDGE
    across, down = (width, 2 * height) if tall else (2 * width, height)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {across:.0f} {down + FOOT:.0f}" '
        f'width="{across:.0f}" height="{down + FOOT:.0f}" role="img">',
        f"<title>Two models write a text of {LENGTH} characters in {STEPS} steps</title>",
        f"<style>{STYLE}{''.join(motion())}</style>",
        f'<rect class="page" x="0.5" y="0.5" width="{across - 1:.0f}" height="{down + FOOT - 1:.0f}" rx="10"/>',
    ]
    for index, (name, lines) in enumerate(panels.items()):
        left, top = (0.0, index * height) if tall else (index * width, 0.0)
        parts.append(f'<text class="title" x="{left + EDGE:.0f}" y="{top + 30:.0f}">{TITLES[name]}</text>')
        parts += letters(lines, left + EDGE, top + HEAD)
    parts += progress(across, down)
    return "\n".join([*parts, "</svg>", ""])


def letters(lines: list[list[Token]], left: float, top: float) -> Iterable[str]:
    """The characters of each step, and the blocks that stand for them before."""
    for step in range(STEPS):
        blocks: list[str] = []
        for row, line in enumerate(lines):
            found = [(column, token.character) for column, token in enumerate(line) if token.step == step]
            places = " ".join(f"{left + column * WIDE:.1f}" for column, letter in found if letter != " ")
            if places:
                shown = escape("".join(letter for _, letter in found if letter != " "))
                yield f'<text class="t t{step}" x="{places}" y="{top + row * HIGH + 15:.0f}">{shown}</text>'
            blocks += [
                f"M{left + column * WIDE + 1:.1f} {top + row * HIGH + 3:.0f}h7v14h-7z"
                for column, _ in found
                if column < COLUMNS  # a space beyond the edge
            ]
        yield f'<path class="m m{step}" d="{"".join(blocks)}"/>'


def progress(across: float, down: float) -> Iterable[str]:
    """A bar of as many parts as there are steps, and what is shown."""
    part = (across - 2 * EDGE) / STEPS
    for step in range(STEPS):
        place = f'x="{EDGE + step * part:.1f}" y="{down:.0f}" width="{part - 3:.1f}" height="4" rx="2"'
        yield f'<rect class="r" {place}/><rect class="b b{step}" {place}/>'
    words = f"{STEPS} steps, {LENGTH // STEPS} characters at a time"
    yield f'<text class="quiet" x="{EDGE:.0f}" y="{down + 24:.0f}">{words}</text>'


def motion() -> Iterable[str]:
    """The animations, one for each step; none for readers who asked for less motion."""
    whole = STEPS * PACE + HOLD
    yield "@media (prefers-reduced-motion: no-preference) {\n"
    for step in range(STEPS):
        at, still = (100 * (step + share) * PACE / whole for share in (0.6, 2.6))
        yield f"@keyframes t{step} {{ 0%, {at:.2f}% {{ opacity: 0; fill: var(--new); }} "
        yield f"{at + 0.01:.2f}% {{ opacity: 1; fill: var(--new); }} {still:.2f}%, 100% {{ opacity: 1; }} }}\n"
        yield f"@keyframes m{step} {{ 0%, {at:.2f}% {{ opacity: 1; }} {at + 0.01:.2f}%, 100% {{ opacity: 0; }} }}\n"
        yield f"@keyframes b{step} {{ 0%, {at:.2f}% {{ opacity: 0; }} {at + 0.01:.2f}%, 100% {{ opacity: 1; }} }}\n"
        yield f".t{step} {{ animation: t{step} {whole:.1f}s infinite; }} "
        yield f".m{step} {{ animation: m{step} {whole:.1f}s infinite; }} "
        yield f".b{step} {{ animation: b{step} {whole:.1f}s infinite; }}\n"
    yield "}\n"


def main() -> None:
    figures, table = common.places("writing")
    texts = compute()
    rows: list[dict[str, Any]] = [
        {"model": name, "position": place, "step": token.step, "character": token.character}
        for name, tokens in texts.items()
        for place, token in enumerate(tokens)
    ]
    common.write(table, ("model", "position", "step", "character"), rows)
    for tall in (False, True):
        path: Path = figures[0].with_stem("writing-tall") if tall else figures[0]
        with replacing(path) as temporary:
            temporary.write_text(picture(texts, tall=tall), encoding="utf-8")


if __name__ == "__main__":
    main()
