"""The documentation as a site: no warnings, every page, every public module, and nothing from other hosts."""

import os
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
CHROMIUM = Path("/usr/bin/chromium")
# What nobody outside calls: argument checks, files, loops, the import of torch, and the programs.
PROGRAMS = ("cli", "app", "words")


class Links(HTMLParser):
    """Where a page points: ordinary links, everything that a browser fetches by itself, and its anchors."""

    def __init__(self, text):
        super().__init__()
        self.links, self.fetched, self.anchors, self.classes = [], [], {""}, set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values.get("id"), values.get("name")} - {None}
        self.classes |= set((values.get("class") or "").split())
        for name in ("src", "href", "srcset", "data", "poster", "action"):
            if values.get(name):
                (self.links if (tag, name) == ("a", "href") else self.fetched).append(values[name])


def pages(nav):
    for entry in nav:
        (target,) = entry.values()
        yield from [target] if isinstance(target, str) else pages(target)


NAV = list(pages(tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]))


def test_every_page_is_in_the_navigation_once():
    assert sorted(NAV) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def test_every_public_module_is_in_the_reference():
    shown = [line for path in DOCS.rglob("reference/*.md") for line in path.read_text(encoding="utf-8").splitlines()]
    source = ROOT / "src" / "unmask"
    modules = {".".join(path.relative_to(source).with_suffix("").parts) for path in source.rglob("[a-z]*.py")}
    public = {name for name in modules if name.split(".")[0] not in PROGRAMS}
    documented = [line.removeprefix("::: unmask.") for line in shown if line.startswith("::: ")]
    assert sorted(documented) == sorted(public | {"models"})


def test_the_table_of_the_reference_names_what_its_pages_hold():
    table = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    for name, modules in re.findall(r"\]\((\w+\.md)\) \| (.*?) \|", table):
        page = (DOCS / "reference" / name).read_text(encoding="utf-8")
        held = {found.split(".")[0] for found in re.findall("^::: unmask.([a-z.]+)", page, flags=re.M)}
        assert set(re.findall("`(.*?)`", modules)) == held, name


@pytest.mark.xdist_group("site")
def test_the_site_fetches_nothing_from_other_hosts(site):
    html = [Links(path.read_text(encoding="utf-8")) for name, path in site.items() if name.suffix == ".html"]
    assert len(html) >= len(NAV)
    for page in html:
        assert not [url for url in page.fetched if urlsplit(url).scheme not in ("", "data") or url.startswith("//")]
        # The theme's script would fetch these from elsewhere, were they ever used.
        assert not page.classes & {"mermaid", "glightbox", "pyodide"}
    for name, path in site.items():
        if name.suffix == ".css":
            text = path.read_text(encoding="utf-8")
            assert "@import" not in text
            assert "url(http" not in text.replace('"', "").replace("'", "")


@pytest.mark.xdist_group("site")
def test_links_lead_to_a_page_and_its_anchor(site):
    parsed = {name: Links(path.read_text(encoding="utf-8")) for name, path in site.items() if name.suffix == ".html"}
    for name, page in parsed.items():
        if name.name == "404.html":
            continue
        for url in page.links + page.fetched:
            target, anchor = urldefrag(url)
            if urlsplit(target).scheme or target.startswith("//"):
                continue
            found = Path(os.path.normpath(name.parent / unquote(target))) if target else name
            found = found / "index.html" if found in (Path(), Path("reference")) else found
            assert found in site, f"{name}: {url}"
            if anchor and found.suffix == ".html":
                assert unquote(anchor) in parsed[found].anchors, f"{name}: {url}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_the_main_pages(site, scheme):
    if not CHROMIUM.exists():
        pytest.skip(f"needs {CHROMIUM}: apt-get install chromium")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python").Axe()
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=CHROMIUM) as browser:
        page = browser.new_page(color_scheme=scheme)
        for name in ("index", "start", "results", "theory", "explorer"):
            page.goto(site[Path(f"{name}.html")].as_uri())
            if name == "start":  # buttons of code are added by a script of the theme
                page.locator("nav.md-code__nav").first.wait_for(state="attached")
            found += [(name, each["id"], each["nodes"][0]["html"]) for each in axe.run(page).response["violations"]]
    assert found == []


@pytest.mark.xdist_group("site")
def test_pages_fit_a_phone(site):
    """No page scrolls sideways; what is too wide does so by itself, and keeps the names of its rows in sight."""
    if not CHROMIUM.exists():
        pytest.skip(f"needs {CHROMIUM}: apt-get install chromium")
    pytest.importorskip("playwright", reason="pip install playwright")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=CHROMIUM) as browser:
        page = browser.new_page(viewport={"width": 390, "height": 844})
        for name in ("index", "start", "choosing", "theory", "atlas", "results", "glossary", "paper"):
            page.goto(site[Path(f"{name}.html")].as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
            edges = "[...document.querySelectorAll('picture img')].map((each) => each.getBoundingClientRect().right)"
            assert max(page.evaluate(edges), default=0) <= 390, name
        page.goto(site[Path("atlas.html")].as_uri())
        # A number and its error are on one line.
        assert page.locator("td", has_text="±").count() > 20
        apart = "[...document.querySelectorAll('td')].filter((each) => / ±|± /.test(each.textContent))"
        assert page.evaluate(f"{apart}.length") == 0
        moved, left = page.evaluate(SIDEWAYS)
        assert moved > 100
        assert 0 <= left < 40
        # Names in code break after a dot or an underscore.
        page.goto(site[Path("paper.html")].as_uri())
        assert page.locator("td code wbr").count() > 100


# How far the widest table can be pushed along, and where its first column is then.
SIDEWAYS = """
() => {
  const room = (each) => each.scrollWidth - each.clientWidth;
  const boxes = [...document.querySelectorAll(".md-typeset__scrollwrap")];
  const box = boxes.sort((a, b) => room(b) - room(a))[0];
  box.scrollLeft = 1e4;
  return [box.scrollLeft, box.querySelector("td").getBoundingClientRect().left];
}
"""
