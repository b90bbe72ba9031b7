"""The documentation runs: every python block, in order, and prints what its arrows say."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ALL = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]
NEEDED = {"docs/integrations.md": ["transformers", "ray", "diffusers", "lm_eval"]}
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [page for page in ALL if BLOCK.search((ROOT / page).read_text(encoding="utf-8"))]
ARROW = re.compile(r"# → (.*)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_and_prints_what_it_says(page):
    for package in ("torch", *NEEDED.get(page, ())):
        pytest.importorskip(package, reason=f"the code of {page} needs {package}")
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    namespace = {}
    for number, block in enumerate(blocks):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(block, f"{page}, block {number}", "exec"), namespace)
        if expected := ARROW.findall(block):
            assert output.getvalue().splitlines() == [line.rstrip() for line in expected]
