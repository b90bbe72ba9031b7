"""What the tab *Watch* shows, as HTML: two texts with all that `player.js` needs to play them, and its controls."""

import json
from collections.abc import Sequence
from html import escape

import numpy as np

from unmask.app.data import watch as runs
from unmask.sample.trace import GIVEN, OPEN
from unmask.words.sentences import counted, per_evaluation

SPEEDS = ("0.5", "1", "2", "4")
# How tokens can be coloured: the words of the switch, and of both ends of its legend.
COLOURS = {
    "step": ("Step", "first step", "last"),
    "surprise": ("Surprise", "0 bits", "7 or more"),
    "none": ("None", "", ""),
}
SHADES = 8  # of each colour in page.css


def watched(both: Sequence[runs.Run], key: str = "") -> str:
    """Two texts side by side. Every token carries its step, so that the page can go back and forth by itself.

    Arguments:
        both: The runs.
        key: Tells this pair from others that the page has seen.
    """
    sides = (_run(run, side, key) for run, side in zip(both, ("left", "right"), strict=True))
    return f'<div class="runs">{"".join(sides)}</div>'


def _run(run: runs.Run, side: str, key: str) -> str:
    kinds = {GIVEN: "given", OPEN: "open"}
    # Whoever cannot see a line is told of it: underlined was given, struck out comes after the end. `player.js` puts
    # what is new in a <mark>.
    drawn = ["s" if over else "span" for over in run.beyond]
    tags = ["u" if step == GIVEN else tag for step, tag in zip(run.revealed, drawn, strict=True)]
    letters = "".join(
        f'<{tag} class="{kinds.get(step, "")}" data-step="{step}" data-text="{escape(piece)}"{more}>'
        f"{escape(piece) or ('_' if step == OPEN else '')}</{tag}>"
        for piece, step, tag, more in zip(run.pieces, run.revealed, tags, _histories(run), strict=True)
    )
    valid, scored = (" ".join(map(str, each)) for each in (run.valid, run.scored))
    nll = " ".join(f"{value:.4f}" for value in run.nll)
    return (
        f'<section aria-label="{side}" data-run="{key}" data-taken="{run.steps}" '
        f'data-planned="{run.planned or 0}" '
        f'data-nll="{nll}" data-valid="{valid}" data-scored="{scored}" data-finished="{int(run.finished)}"'
        f'{_standings(run)}><h2 id="watch-{side}-title">{escape(run.title)}</h2>'
        f'<p class="count" role="status">{_counted(run)}</p><p class="text">{letters}</p>'
        f"{_costs(run, side)}{_remark(run)}</section>"
    )


def _histories(run: runs.Run) -> list[str]:
    """For each position the bits of its tokens, and all that it was where tokens may be taken back."""
    surprise = run.surprise or ((),) * len(run.pieces)
    bits = [f' data-bits="{" ".join(f"{each:.2f}" for each in found)}"' if found else "" for found in surprise]
    if run.revised is None:
        return bits
    versions = [f' data-versions="{escape(json.dumps(each))}"' if each else "" for each in run.revised.versions]
    return [one + other for one, other in zip(versions, bits, strict=True)]


def _standings(run: runs.Run) -> str:
    if run.revised is None:
        return ""
    parts = ("evaluations", "gone", "again")
    columns = [(each.evaluations, each.taken, each.rewritten) for each in run.revised.standings]
    lists = zip(*columns, strict=True) if columns else [()] * len(parts)
    return "".join(f' data-{part}="{" ".join(map(str, each))}"' for part, each in zip(parts, lists, strict=True))


def _costs(run: runs.Run, side: str) -> str:
    """The place for the cost of each step, which `player.js` draws as they come."""
    if run.revised is not None:
        return ""
    return (
        '<figure class="costs"><svg viewBox="0 0 1000 100" preserveAspectRatio="none" role="img" '
        f'aria-labelledby="watch-{side}-title" aria-describedby="watch-{side}-costs"></svg>'
        f'<figcaption id="watch-{side}-costs">Bits per token of each step.</figcaption></figure>'
    )


def _remark(run: runs.Run) -> str:
    """What stands below a text: what was done differently, and why there is no likelihood if there is none."""
    said = [run.note] if run.note else []
    if run.revised is not None:
        said.append(
            f"{run.revised.word}: {run.revised.sentence} Such a text has no exact likelihood, because it can come "
            "about in many ways."
        )
    return "".join(f'<p class="facts">{escape(words)}</p>' for words in said)


def _counted(run: runs.Run) -> str:
    """The same words as `player.js` writes when it goes back and forth."""
    if not run.evaluations:
        return "nothing revealed yet"
    valid = run.valid[-1]
    if run.revised is None:
        last = f"{run.nll[-1] / max(run.scored[-1], 1) / np.log(2):.3f} bits per token"
    else:
        standing = run.revised.standings[-1]
        last = f"{standing.taken:,} taken back, {standing.rewritten:,} written again"
    return (
        f"{counted(run.evaluations, 'evaluation')} · {counted(valid, 'token')} · "
        f"{per_evaluation(valid / run.evaluations)} · {last}"
    )


def controls() -> str:
    """The bar of the player. Its buttons sleep until there is a text to go through."""
    speeds = "".join(f'<option value="{each}"{" selected" if each == "1" else ""}>{each}×</option>' for each in SPEEDS)
    return (
        '<div class="player" role="group" aria-label="Player">'
        '<button type="button" id="watch-play" class="main" disabled>Play</button>'
        '<button type="button" id="watch-back" disabled>Step back</button>'
        '<button type="button" id="watch-step" disabled>Step</button>'
        '<input type="range" id="watch-scrub" aria-label="Step shown" min="0" max="0" value="0" step="1" disabled>'
        '<output id="watch-place" for="watch-scrub"></output>'
        f'<label class="speed">Speed <select id="watch-speed" aria-label="Speed">{speeds}</select></label></div>'
    )


def colours() -> str:
    """How tokens are coloured and what that means, and the button that saves what is seen."""
    choices = "".join(
        f'<label><input type="radio" name="watch-colour" value="{key}"{" checked" if key == "step" else ""}> {words[0]}'
        f"</label>"
        for key, words in COLOURS.items()
    )
    return (
        f'<div class="player colours"><fieldset><legend>Colour tokens by</legend>{choices}</fieldset>{_legend()}'
        '<button type="button" id="watch-svg" disabled>Save animation</button></div>'
    )


def _legend() -> str:
    ramps = ""
    for key, (_, low, high) in COLOURS.items():
        shades = "".join(f'<i class="{key}-{shade}"></i>' for shade in range(SHADES))
        ramps += f'<span class="ramp" data-colour="{key}">{low} <b>{shades}</b> {high}</span>' if low else ""
    return (
        f'<p class="legend">{ramps}<span><i class="swatch new">a</i> newest</span>'
        '<span class="when-given"><u class="swatch">a</u> given</span>'
        '<span class="when-revised"><i class="swatch gone">_</i> taken back</span></p>'
    )
