"""What the names on the page mean: a sentence where each is chosen, and a page that says more (`/names`).

All of it is read from the one table of names, `unmask.names`, and from the docstrings of what the names stand for.
There is no public address to link to, so the explorer serves this page itself.
"""

import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from importlib import resources
from typing import Any, final

from unmask.names import DISTRIBUTIONS, GAUGES, MODELS, ORDERS, REVISIONS, RULES, SIZES
from unmask.words.schedules import NUMBERED, SPACED

ADDRESS = "names"  # beside the page
_LEFT_OUT = ("Arguments", "Returns", "Raises", "Attributes")  # of a docstring: for those who call it


@final
@dataclass(frozen=True)
class Entry:
    """A name.

    Attributes:
        kind: The key of its group. name: The name. sentence: What it is.
        typed: What to write on the command line to get it; empty if it cannot be had there.
        made: What it stands for, whose docstring says more; None if there is no such thing.
        title: What people call it, if that is not its name.
    """

    kind: str
    name: str
    sentence: str
    typed: str = ""
    made: Any = None
    title: str = ""

    @property
    def anchor(self) -> str:
        return f"{self.kind}-{self.name}"

    @property
    def shown(self) -> str:
        return self.title or self.name


_GROUPS = {
    "size": ("Sizes", "How many tokens each step reveals."),
    "order": ("Orders", "Which positions are revealed first."),
    "revision": ("Revisions", "Which tokens are taken back or changed after they were drawn."),
    "gauge": ("Gauges", "Measures of dependence. A guarantee is a multiple of one of them."),
    "distribution": ("Distributions", "Data whose distribution is known exactly."),
    "model": ("Models", "Models that ship with the library."),
    "rule": ("Published samplers", "An order and a size that were published under one name."),
}


@lru_cache(maxsize=1)
def entries() -> dict[str, dict[str, Entry]]:
    """Every name by the key of its group."""
    found = [
        *(Entry("size", name, each.sentence, _sized(name), each.kind) for name, each in SIZES.items()),
        *(
            Entry("order", name, each.sentence, f"--order {name}" if each.alone else "", each.kind)
            for name, each in ORDERS.items()
        ),
        *(
            Entry(
                "revision", name, each.sentence, f"--revise {name}{':' + each.usual if each.usual else ''}", each.kind
            )
            for name, each in REVISIONS.items()
        ),
        *(
            Entry("gauge", name, each.sentence, f"--size minimax-{name} --steps 16", each.make, each.title)
            for name, each in GAUGES.items()
        ),
        *(
            Entry("distribution", name, _whole(each.sentence), f"--distribution {name}", each.build)
            for name, each in DISTRIBUTIONS.items()
        ),
        *(Entry("model", name, each.sentence, f"--model {name}") for name, each in MODELS.items()),
        *(
            Entry("rule", name, f"{each.sentence} It uses the order {each.order} and the size {each.size}.")
            for name, each in RULES.items()
        ),
    ]
    return {kind: {each.name: each for each in found if each.kind == kind} for kind in _GROUPS}


def _sized(name: str) -> str:
    entry = SIZES[name]
    words = {"STEPS": f"--size {name} --steps 16", "CURVE": f"--size {name} --steps 16 --curve FILE"}
    return words.get(entry.needs.name, f"--size {name}:{entry.usual}" if entry.usual else "")


def _whole(sentence: str) -> str:
    """The sentence of a distribution, with the names of its options for their values."""
    words = re.sub(r"\{(\w+)\}", r"\1", sentence)
    return words[0].upper() + words[1:] + "."


def of(kind: str, word: object) -> Entry | None:
    """The entry of a name as a field holds it: with a number (`comb-16`, `cap:0.1`), or spaced (`spaced-4/comb`)."""
    text = str(word)
    if kind == "order":
        if spaced := SPACED.fullmatch(text):
            return entries()[kind]["spaced"] if of(kind, spaced[2]) else None
        numbered = NUMBERED.fullmatch(text)
        return entries()[kind].get(numbered[1] if numbered else text)
    return entries()[kind].get(text.partition(":")[0])


def about(model: object, order: object, size: object, revision: object) -> str:
    """One sentence for each name that the fields of a side hold; nothing for what is no name."""
    given = {"model": model, "order": order, "size": size, "revision": revision}
    return _listed((str(word), entry) for kind, word in given.items() if (entry := of(kind, word)))


def folded(names: Mapping[str, Iterable[str]]) -> str:
    """What some names mean, by the keys of their groups; to be opened where they are chosen."""
    found = _listed((entries()[kind][name].shown, entries()[kind][name]) for kind in names for name in names[kind])
    return f'<details class="glossary"><summary>What the names mean</summary>{found}</details>'


def _listed(named: Iterable[tuple[str, Entry]]) -> str:
    rows = "".join(
        f'<div><dt><a href="{ADDRESS}#{escape(entry.anchor)}" target="_blank">{escape(word)}</a></dt>'
        f"<dd>{escape(entry.sentence)}</dd></div>"
        for word, entry in named
    )
    return f'<dl class="names">{rows}</dl>' if rows else ""


@lru_cache(maxsize=1)
def html() -> str:
    """The page of all names. It needs no script, and asks nobody for anything."""
    style = resources.files("unmask.app").joinpath("names.css").read_text(encoding="utf-8")
    ways = "".join(f'<li><a href="#{kind}">{title}</a></li>' for kind, (title, _) in _GROUPS.items())
    groups = "".join(
        f'<section aria-labelledby="{kind}"><h2 id="{kind}">{title}</h2><p>{words}</p>'
        f"{''.join(map(_article, entries()[kind].values()))}</section>"
        for kind, (title, words) in _GROUPS.items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/><link rel="icon" href="data:,"/>'
        f"<title>unmask: what the names mean</title><style>{style}</style></head><body>"
        "<header><h1>What the names mean</h1><p>Every name that the explorer, the command line and files use. "
        '<a href="./">Back to the explorer</a></p></header>'
        f'<nav aria-label="Groups"><ul>{ways}</ul></nav><main>{groups}</main></body></html>\n'
    )


def _article(entry: Entry) -> str:
    typed = f"<p class='typed'>Command line: <code>{escape(entry.typed)}</code></p>" if entry.typed else ""
    title = f"{escape(entry.title)} <code>{escape(entry.name)}</code>" if entry.title else f"<code>{entry.name}</code>"
    return (
        f'<article id="{escape(entry.anchor)}"><h3><a href="#{escape(entry.anchor)}">{title}</a></h3>'
        f"<p class='sentence'>{escape(entry.sentence)}</p>{typed}{_more(entry.made)}</article>"
    )


def _more(made: Any) -> str:
    """What a docstring says, without what only callers need."""
    if made is None or made.__name__.startswith("_"):
        return ""
    where = f"{made.__module__.removesuffix('._' + made.__name__)}.{made.__name__}"
    parts: list[str] = []
    for part in re.split(r"\n\n(?=\S)", inspect.getdoc(made) or ""):
        head, _, body = part.partition(":\n")
        if head in _LEFT_OUT:
            continue
        if head in ("References", "Example"):
            body = inspect.cleandoc(body)
            parts.append(f"<h4>{head}</h4>" + (f"<pre>{escape(body)}</pre>" if head == "Example" else _prose(body)))
        else:
            parts.append(_prose(part))
    said = "".join(parts)
    return f"<details><summary>More about <code>{escape(_public(where))}</code></summary>{said}</details>"


def _public(where: str) -> str:
    """The name under which people import it: a part of the library shows what its modules hold."""
    parts = where.split(".")
    return ".".join([*parts[:2], parts[-1]])


def _prose(text: str) -> str:
    """Paragraphs of a docstring; what is set in is a formula."""
    made = ""
    for block in text.split("\n\n"):
        if not block.strip():
            continue
        if block.startswith("    "):
            made += f"<pre>{escape(inspect.cleandoc(block))}</pre>"
        else:
            words = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(" ".join(block.split())))
            made += f"<p>{words}</p>"
    return made
