"""The snippets of docs/integrations.md run with stand-ins; and what the adapters need."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from standins import Dream, adapter  # noqa: E402
from toy import table_model  # noqa: E402

PAGE = Path(__file__).parent.parent / "docs" / "integrations.md"


def section(title):
    """The one block of code of a section, and what its arrows say."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"^```py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return block, re.findall(r"# → (.*)$", block, re.MULTILINE)


def run(title, namespace):
    block, expected = section(title)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(block, title, "exec"), namespace)
    assert output.getvalue().splitlines() == expected


def test_the_snippet_for_dream_runs():
    run("Dream", {"model": Dream(table_model(6, 15), 6), "prompt": torch.tensor([[1, 2, 3]])})


def test_the_snippet_for_sglang_makes_settings_that_the_algorithm_takes(monkeypatch):
    module = adapter(monkeypatch, "sglang")
    namespace = {}
    run("SGLang", namespace)
    config = SimpleNamespace(
        block_size=4, mask_id=9, first_done_first_out_mode=True, algorithm_config=namespace["settings"]
    )
    assert module.Unmask(config).hosted.schedule == namespace["schedule"]


def test_the_snippet_for_dllm_runs(monkeypatch):
    adapter(monkeypatch, "dllm")

    class Model:
        device, config = torch.device("cpu"), SimpleNamespace(vocab_size=6)

        def __call__(self, tokens, attention_mask):
            return SimpleNamespace(logits=torch.zeros((*tokens.shape, 6)))

    class Tokenizer:
        mask_token_id, eos_token_id = 6, 5

        def __len__(self):
            return 6

    run("dllm", {"model": Model(), "tokenizer": Tokenizer()})


def test_the_command_of_the_harness_says_the_same_without_a_traceback(monkeypatch, capsys):
    from unmask.adapters.__main__ import main

    for name in [name for name in sys.modules if name.split(".")[0] == "lm_eval"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    monkeypatch.delitem(sys.modules, "unmask.adapters.harness", raising=False)
    monkeypatch.delattr("unmask.adapters.harness", raising=False)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("This needs lm-evaluation-harness, which is not installed.")


def test_what_the_adapters_share_imports_no_engine():
    code = (
        "import sys, unmask.adapters, unmask.adapters.hosted, unmask.adapters.llada, unmask.adapters.dream; "
        "print([m for m in ('diffusers', 'transformers', 'lm_eval', 'sglang', 'dllm') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
