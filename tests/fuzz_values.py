"""Values for fuzzed command lines: small ones that are right, and whatever may stand in their place."""

from typing import Any

PIPED = "/dev/fd/9"  # a curve that comes through a pipe

SMALL: dict[str, tuple[Any, ...]] = {
    "length": (4, 8, 16), "steps": (1, 2, 4, 8), "seed": (0, 1, 7), "draws": (2, 20), "estimate-curve": (4, 20),
    "count": (1, 2), "texts": (2, 4), "points": (2, 5), "target": (0, 0.05, 1, 5), "tc": (0, 3), "dtc": (0, 3),
    "temperature": (0, 0.5, 1, 2), "top-p": (0.1, 0.9, 1), "minutes": (0, 0.001), "rate": (0.001, 0.01),
    "stay": (0, 0.5, 1), "bias": (0, 0.3, 1), "dimension": (1, 2), "device": ("cpu", "auto"),
    "engine": ("local", "local", "ray"), "workers": (1, 2), "address": ("auto",), "host": ("127.0.0.1",),
    "port": (7860,), "prompt": ("ab__cd", "a_", "the _ sat", "abc"),
    "allow": ("1:a", "2-3:abc", "1:the"), "masks": ("uniform", "comb"),
    "alphabet": (2, 3, 16), "width": (8, 16), "layers": (2,), "heads": (1, 2), "batch": (1, 2),
    "orders": ("random", "spread", "comb-4", "dilated", "left-to-right"),
}  # fmt: skip
INTEGERS = (
    "0", "1", "-1", "2", "3", "15", "16", "17", "-0", "+5", "1000", "100000", "1000000", "1000000000", str(2**31),
    str(2**48), str(2**63), str(2**64), str(10**14), str(-(10**14)), "9" * 400,
)  # fmt: skip
# What is none, or is hardly one.
WORDS = (
    "007", "1_000", "1e3", "3.0", "2.5", "0x10", "9" * 5000, "nan", "inf", "1e308", "", " ", " 4 ", "٣", "４", "½",
    "x", "4x", "None", "true", str(2**48 + 1),
)  # fmt: skip
NUMBERS = (
    "0", "1", "-1", "0.5", "-0.0", "1e-308", "5e-324", "1e-400", "1e308", "-1e308", "1e400", "nan", "-nan", "inf",
    "-inf", "infinity", "1_0", "0x1p3", "½", "٣.٥", "1,5", "", " ", ".", "e", "1e", "9" * 400, "1e15", "1e-15",
    "0.9999999999999999", "1.0000000000000002", "x",
)  # fmt: skip
STRINGS = (
    "", " ", "x", "X", "-", "--", "_", "a" * 10_000, "a b " * 2000, "é", "𝔘𝔫𝔦", "日本語", "\u202eabc",
    "\x1b[31mred\x07", "a\nb", "a\tb", "\r", "[/]", "[/bold]", "[red]", "[link=x]", "{}", "{steps}", "{0}", "%s%n",
    "$(id)", "`id`", "../..", "'", '"', "\\", "*", "~", "\udcff", "\x7f", ",", ",,", ":", "a:b", "None", "null",
    "nan", "--json", "--help", "-h", "@file", "=", "a=b",
)  # fmt: skip
PLACES = (
    "missing.json", "missing/file.json", ".", "..", "/", "", "~", "curve.csv/x", "/dev/null", "/dev/zero",
    "/dev/full", "/dev/urandom", "/dev/stdin", "/dev/tty", PIPED, "/proc/self/mem", "/proc/self/environ",
    "/etc/shadow", "x" * 300, "x" * 10_000, "a\nb.json", "\x1b[31m.json", "\udcff.json", "[/b].json",
    "{name}.json", "file:///etc/passwd", "https://example.org/x.json", "-", " ", "hf:", "hf:missing",
    "hf:/missing", "hf:./missing", "hf:.", "hf:a/b/c", "hf:bert-base-uncased", "hf:" + "x" * 10_000, "hf:[/b]",
    "hf:../../x", "hf:a b", "hf:\x1b[31m",
)  # fmt: skip
OUTPUTS = (
    "new", "new.xyz", "new.CSV", ".new.json", "new.json", "new.csv", "new.jsonl", "new.png", "missing/new.json",
    ".", "", "folder", "curve.csv", "calibration.json", "run", "run-empty", "loop", "x" * 300 + ".json",
    "a\nb.json", "\x1b[31m.csv", "\udcff.jsonl", "[/b].json", " ", "run/model.safetensors", "curve.csv/new.json",
    "a/b/c/d",
)  # fmt: skip
OUTSIDE = (
    "/",
    "..",
    "/dev/null",
    "/dev/full",
    "/dev/zero",
    "/dev/stdout",
    "/proc/new.json",
    "/new.json",
    "/dev/new.csv",
    "~",
)
SIZES = (
    "even",
    "cosine",
    "tc",
    "dtc",
    "minimax-min",
    "logit",
    "log-linear",
    "offset",
    "universal",
    "optimal",
    "square-root",
)
ORDERS = ("random", "spread", "comb", "comb-4", "left-to-right", "dilated", "confidence", "margin", "entropy")
ODD = (
    "comb-0", "comb-1", "comb-16", "comb-17", "comb-999999999999", "comb--1", "comb-", "comb-x", "comb-1.5",
    "comb-" + "9" * 5000, "comb-٣", "threshold", "threshold:", "threshold:0.9", "threshold:0", "threshold:1",
    "threshold:2", "threshold:-1", "threshold:nan", "threshold:inf", "threshold:x", "threshold:0.5:0.5",
    "factor:0", "factor:1", "factor:1e308", "factor:-1", "entropy-bound:0", "entropy-bound:1e-320",
    "entropy-bound:1", "nothing:1", ":", ":1", "minimax", "EVEN", "Random",
)  # fmt: skip
PROMPTS = ("_" * 16, "_" * 17, "a" * 16, "[MASK] _", "the [SEP] _", "zebra _", "A_", "_" * 5000)
DEVICES = ("cuda", "cuda:99", "cuda:-1", "mps", "meta", "cpu:3", "ray")
UNKNOWN = ("--unknown", "--lenght", "-x", "--Json", "-", "---json", "--no-json", "--", "-h")
