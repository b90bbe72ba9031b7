"""What the names mean: every name that can be chosen has a sentence on the spot, and a place that says more."""

import re
from html.parser import HTMLParser

import pytest

from unmask.app import glossary
from unmask.app.glossary import about, entries, of
from unmask.names import DISTRIBUTIONS, GAUGES, MODELS, ORDERS, REVISIONS, RULES, SIZES

TABLES = {
    "size": SIZES, "order": ORDERS, "revision": REVISIONS, "gauge": GAUGES, "distribution": DISTRIBUTIONS,
    "model": MODELS, "rule": RULES,
}  # fmt: skip


class Page(HTMLParser):
    """Anchors, links, and what a browser would fetch."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.fetched = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if tag == "a" else []
        self.fetched += [values[name] for name in ("src", "href") if tag != "a" and name in values]
        assert tag != "script"


def test_every_name_has_a_sentence_and_an_anchor():
    page = Page(glossary.html())
    assert len(page.anchors) == len(set(page.anchors))
    assert page.fetched == ["data:,"]
    for kind, table in TABLES.items():
        assert list(entries()[kind]) == list(table)
        for entry in entries()[kind].values():
            assert re.fullmatch(r"[A-Z⌈].*\.", entry.sentence), entry
            assert "{" not in entry.sentence
            assert entry.anchor in page.anchors
    assert {each.removeprefix("#") for each in page.links if each != "./"} <= set(page.anchors)


def choices(block):
    return [value for _, value in getattr(block, "choices", ())]


def test_every_name_that_a_field_offers_is_explained_beside_it():
    gr = pytest.importorskip("gradio", reason="the page needs gradio: pip install 'unmask[app]'")
    models = pytest.importorskip("unmask.models")
    from unmask.app.tabs import distributions, schedules, watch

    anchors = Page(glossary.html()).anchors
    shown = {}
    for name, make in {
        "watch": lambda: watch.build(models.load("builtin"), models.calibration_of(models.load("builtin"))),
        "schedules": schedules.build,
        "distributions": distributions.build,
    }.items():
        with gr.Blocks() as page:
            tab = make()
        panes = "".join(str(block.value) for block in page.blocks.values() if isinstance(block, gr.HTML))
        fields = {key.split()[-1]: choices(field) for key, field in tab.form.fields.items() if choices(field)}
        for field, words in fields.items():
            kind = {"family": "distribution"}.get(field, field)
            for word in words:
                if word == "none":
                    continue
                entry = of(kind, word)
                assert entry is not None, (name, field, word)
                assert entry.anchor in anchors
                if name == "watch":  # whose fields are explained as they are chosen
                    panes = about(**{**dict.fromkeys(("model", "order", "size", "revision")), kind: word})
                assert f"{glossary.ADDRESS}#{entry.anchor}" in panes, (name, word)
        shown[name] = set(fields)
    assert shown == {
        "watch": {"model", "order", "size", "revision"}, "schedules": {"size", "gauge"},
        "distributions": {"family", "size"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "word", "name"),
    [
        ("order", "comb-16", "comb"),
        ("order", "spaced-4/comb-16", "spaced"),
        ("order", "spaced-4/nothing", None),
        ("order", "spaced-4/spaced", None),
        ("order", "spaced-4/spaced-4/comb-16", None),
        ("order", "spaced-1/" * 3000 + "comb-16", None),
        ("size", "threshold:0.8", "threshold"),
        ("revision", "cap:0.1", "cap"),
        ("revision", "none", None),
        ("model", "<b>", None),
    ],
)
def test_a_word_with_a_number_is_explained_by_its_name_unless_it_is_spaced_twice(kind, word, name):
    found = of(kind, word)
    assert (found and found.name) == name


def test_what_is_typed_is_what_the_command_line_takes():
    from unmask.words.revisions import revision_named
    from unmask.words.schedules import check_size, order_named

    for kind, check in (("size", check_size), ("order", order_named), ("revision", revision_named)):
        typed = [entry.typed.split()[1] for entry in entries()[kind].values() if entry.typed]
        assert len(typed) >= 9
        for word in typed:
            check(word)


def test_the_page_of_names_is_served_and_nothing_beside_it():
    from unmask.app.guard import _READ, _WRITE

    assert _READ.fullmatch("/names")
    assert not _WRITE.fullmatch("/names")
    assert not _READ.fullmatch("/names/x")
