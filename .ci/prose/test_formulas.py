"""Formulas: GitHub shows the same source as the site, and the site typesets every one of them, from the disk.

The last tests drive Debian's Chromium, and are skipped where there is none.
"""

import html
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SOURCES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "experiments" / "README.md"]
BROWSER = Path("/usr/bin/chromium")
FLAGS = ("no-sandbox", "disable-gpu", "disable-background-networking", "disable-component-update", "disable-sync")
CODE = re.compile(r"^```.*?^```$|^ {4}.*?$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
FORMULA = re.compile(r"\$\$\n(.*?)\n\$\$|\$([^$]+?)\$", re.DOTALL)
# How far a page is wider than the window, and the formulas, tables and figures that no box of their own holds.
OUTSIDE = """() => {
  const edge = Math.min(document.documentElement.clientWidth, document.documentElement.scrollWidth) + 1;
  const boxed = (element) => {
    for (let box = element.parentElement; box && box !== document.body; box = box.parentElement) {
      const held = ["auto", "scroll", "hidden"].includes(getComputedStyle(box).overflowX);
      if (held && box.getBoundingClientRect().right <= edge) return true;
    }
    return false;
  };
  const wide = [...document.querySelectorAll(".katex, .md-typeset table, .md-typeset img, .md-typeset pre")];
  return wide.filter((one) => one.getBoundingClientRect().right > edge && !boxed(one))
    .map((one) => `${one.tagName} ${one.textContent.slice(0, 60)}`);
}"""


def formulas(path):
    """The formulas of a page, in TeX."""
    prose = CODE.sub("", path.read_text(encoding="utf-8"))
    return [block or inline for block, inline in FORMULA.findall(prose)]


def test_the_pages_of_theory_have_formulas():
    counts = {path.name: len(formulas(path)) for path in SOURCES}
    assert counts["theory.md"] > 500
    assert min(counts[name] for name in ("paper.md", "glossary.md", "design.md")) > 10


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_formulas_are_written_so_that_github_shows_them(path):
    """GitHub takes a backslash from before a sign, and asterisks or a _ after a sign for emphasis."""
    for formula in formulas(path):
        assert not re.search(r"\\[^A-Za-z\s]", formula), formula
        assert not re.search(r"(?<![A-Za-z0-9])_", formula), formula
        assert not re.search(r"[*<>~`]", formula), formula
        assert formula.count("{") == formula.count("}"), formula
        assert formula == formula.strip(), formula


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_formula_is_left_in_grey_code(path):
    """Letters that only mathematics has are in formulas, not in code spans; in blocks of code they may stand."""
    prose = re.sub(r"^```.*?^```$|^ {4}.*?$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    spans = [span for span in re.findall(r"`([^`\n]+)`", prose) if re.search("[Σ√∫π‖∈≤≥ℓρ]", span)]
    assert not spans


@pytest.mark.xdist_group("site")
def test_no_dollar_is_left_in_the_built_pages(site):
    for name, path in site.items():
        if name.suffix == ".html":
            text = re.sub(r"<(script|style|pre|code)\b.*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
            assert "$" not in html.unescape(re.sub("<[^>]+>", "", text)), name


@pytest.mark.xdist_group("site")
def test_the_parts_that_came_from_elsewhere_have_their_licences(site):
    for folder in ("katex", "iframe-worker"):
        place = ROOT / "docs" / "assets" / folder
        assert "Permission is hereby granted, free of charge" in (place / "LICENSE").read_text(encoding="utf-8")
    names = {str(name) for name in site}
    assert {"assets/math.js", "assets/katex/katex.min.js", "assets/katex/katex.min.css"} <= names
    assert sum(path.stat().st_size for path in (ROOT / "docs" / "assets").rglob("*") if path.is_file()) < 500_000


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason='the browser needs the extra "dev"')
    if not BROWSER.exists():
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=BROWSER, args=[f"--{flag}" for flag in (*FLAGS, "no-first-run")])
        yield found
        found.close()


def opened(context, path):
    """A page from the disk, once its formulas are there; and what it asked other hosts for."""
    page, asked = context.new_page(), []
    page.on("request", lambda request: asked.append(request.url) if request.url.startswith("http") else None)
    page.on("pageerror", lambda error: asked.append(str(error)))
    page.goto(path.as_uri())
    page.wait_for_function("![...document.querySelectorAll('.arithmatex')].some(one => !one.querySelector('.katex'))")
    page.wait_for_function("document.fonts.status === 'loaded'")
    return page, asked


@pytest.mark.xdist_group("site")
def test_every_formula_is_typeset_and_nothing_leaves_the_page(site, browser):
    """On a screen of 1400 pixels, and on a phone."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    for name, path in site.items():
        if name.suffix != ".html" or name.name == "404.html" or name.parts[0] == "reference":
            continue
        page, asked = opened(context, path)
        assert not asked, name
        assert page.evaluate("document.querySelectorAll('.katex-error').length") == 0, name
        assert page.evaluate(OUTSIDE) == [], name
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate(OUTSIDE) == [], name
        page.close()
    context.close()


@pytest.mark.xdist_group("site")
def test_search_works_from_the_disk(site, browser):
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page, asked = opened(context, site[Path("index.html")])
    page.keyboard.press("/")
    page.keyboard.type("overhang")
    page.wait_for_function(
        "/\\d+ results/.test(document.body.innerText + [...document.querySelectorAll('*')]"
        ".map(one => one.shadowRoot?.textContent ?? '').join(' '))"
    )
    assert not asked
    context.close()
