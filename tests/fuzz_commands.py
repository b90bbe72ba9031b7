"""Fuzzing of whole command lines of `unmask`: nothing that a user types may end in a traceback, a hang or full memory.

    python tests/fuzz_commands.py --count 20000 --seed 1 --jobs 2 --report findings.json

One process imports everything and makes the files (`fuzz_files`); every command line (`fuzz_words`) runs in a child
that is forked from it (`fuzz_children`), in a folder of its own, with limits on memory and time and, where possible,
without the rights of root: some of the lines ask to overwrite `/dev/null`. Line number N of a seed is always the same:
`--first N --count 1` repeats it, and `--files FOLDER` writes the files that a reported line names.

What is asked of a command line (`judged`): it ends with 0 or 2 (or 130, if it was interrupted). With 2 there is one
line on stderr, "Error: …", a sentence of less than a thousand letters that names something of the command line; nothing
on stdout, and no file is new, changed or left over. With 0, what `--json` prints is JSON. A line that succeeds is now
and then repeated with a standard output that is closed, full, a terminal, or read by nobody: the exit code must follow
one rule in all commands (`ALLOWED`).
"""

import argparse
import collections
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from fuzz_children import GIGABYTE, Fuzzer, Outcome
from fuzz_line import Line
from fuzz_words import Grammar

# One thread each, and nothing from the network; set before anything is imported that looks at it.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1",
    "NUMBA_THREADING_LAYER": "workqueue", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1",
    "TORCH_COMPILE_DISABLE": "1", "MPLBACKEND": "agg",
}  # fmt: skip
LETTERS = 1000  # of a message
FULL = GIGABYTE  # of memory, filled by a command that then gives up
KINDS = ("traceback", "crash", "hang", "memory", "exit code", "left over", "json", "output", "message", "noise")
MODES = ("gone", "head", "closed", "full", "terminal")  # where standard output may go instead of to a file
# How a line that succeeds may end when its output cannot be written: quietly if nobody reads, else with a mistake.
ALLOWED = {"gone": (0, 141), "head": (0, 141), "closed": (0, 2), "full": (2,)}
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # what a terminal obeys, but for the end of a line
TRIES = 20  # runs to make the line of a finding shorter
BUDGET = 120  # seconds for all of them


@dataclass
class Finding:
    """Something that must not be, and the shortest line that shows it.

    Arguments:
        kind: What is wrong, one of `KINDS`.
        what: Where or how, so that one mistake is one finding.
        count: How many lines showed it.
        number: The number of the one that is shown, to repeat it.
        line: That line, as one would type it.
        words: The same, whole.
        mode: Where its output went.
        said: The end of what it said on stderr.
        seconds: How long it took.
    """

    kind: str
    what: str
    count: int
    number: int
    line: str
    words: list[str]
    mode: str
    said: str
    seconds: float


def findings(count: int, seed: int = 1, *, jobs: int = 1) -> list[Finding]:
    """What is wrong among so many command lines, found by a process of its own: forking needs a clean one."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "findings.json"
        line = [__file__, "--count", count, "--seed", seed, "--jobs", jobs, "--report", report]
        result = subprocess.run([sys.executable, *map(str, line)], capture_output=True, text=True, check=False)
        if not report.exists():
            raise RuntimeError(f"The fuzzer itself failed: {result.stderr}")
        return [Finding(**each) for each in json.loads(report.read_text())["findings"]]


# What is right and wrong


def judged(end: Outcome, grammar: Grammar) -> Iterator[tuple[str, str]]:
    """What is wrong with how a line ended: a kind, and where or how."""
    command = end.line.command if end.line.command in grammar.commands else "unmask"
    if end.stuck:
        yield "hang", f"{command}: {_busy(end.stuck)}"
        return
    said = end.err + (end.out.decode(errors="replace") if end.mode == "terminal" else "")
    if "Traceback (most recent call last)" in said:
        yield "traceback", _traceback(said)
        return
    if end.code < 0:
        yield "crash", f"{command}: {signal.Signals(-end.code).name}"
        return
    if end.code and end.memory > FULL and end.mode != "full":  # where the work was done, and could not be printed
        yield "memory", f"{command}: gives up after filling it: {_template(end.err)}"
    for name in end.changed:
        if re.search(r"(^|/)\.(\d+-|unmask-)", name) or name.startswith("tmp/"):
            yield "left over", f"{command}: {re.sub('[0-9]+', 'N', name)[:60]}"
    if "Exception ignored" in said and end.mode == "file":
        yield "noise", f"{command}: {_template(said)}"
    if warned := re.search(r"\b(\w*Warning): (.{0,60})", said):
        yield "noise", f"{warned[1]}: {warned[2]}"
    if end.mode == "terminal":
        if CONTROL.search(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", said)):
            yield "output", f"{command}: control characters reach the terminal"
        return
    if end.mode != "file":
        return  # judged together, below
    allowed = (0,) if end.line.complete else (0, 2, 130)
    if end.code not in allowed:
        yield "exit code", f"{command}: {end.code}: {_template(end.err)}"
    elif end.code == 2:
        yield from _mistake(end, command, grammar)
    elif end.line.complete and end.err:
        yield "noise", f"what a shell asks: {_template(end.err)}"
    elif end.code == 0 and end.line.json and (wrong := _not_json(end.out)):
        yield "json", f"{command}: {wrong}"


def _mistake(end: Outcome, command: str, grammar: Grammar) -> Iterator[tuple[str, str]]:
    """What is wrong with the answer to a mistake."""
    lines = end.err.splitlines()
    if end.out:
        yield "output", f"{command}: a mistake, and something on stdout: {_template(end.err)}"
    for name in end.changed:
        if not re.search(r"(^|/)\.(\d+-|unmask-)", name) and not name.startswith("tmp/"):
            yield "left over", f"{command}: {name[:60]} is new or changed: {_template(end.err)}"
    if len(lines) != 1 or not lines[0].startswith("Error: "):
        yield "message", f"not one line that begins with 'Error: ': {_template(end.err)}"
        return
    sentence = lines[0].removeprefix("Error: ")
    if not sentence.endswith((".", "?")):
        yield "message", f"no full stop: {_template(sentence)}"
    if len(sentence) >= LETTERS:
        yield "message", f"{LETTERS} letters or more: {_template(sentence)}"
    if not sentence.isprintable():
        yield "message", f"control characters: {_template(sentence)}"
    if "Argument '" in sentence:
        yield "message", f"speaks of an argument, not of an option: {_template(sentence)[:45]}"
    elif not re.match(r"This needs \w+, which is not installed|There is no (command|figure) ", sentence) and not _names(
        sentence, end.line, grammar
    ):
        yield "message", f"names nothing of the command line: {_template(sentence)}"


def _names(sentence: str, line: Line, grammar: Grammar) -> bool:
    """Whether a sentence names an option, a command, or a word of the line, if only its first letters."""
    names = set.union(*(grammar.named(name) for name in grammar.commands))
    if any(word in names for word in re.findall(r"--?[a-z][a-z-]*|\b[A-Z]+\b", sentence)):
        return True
    if sentence.startswith(("Got unexpected extra argument", "No such option", "There is no command")):
        return True
    words = [" ".join(word.encode("utf-8", "backslashreplace").decode().split()) for word in line.words]
    words += [word.removeprefix("hf:") for word in words]
    quoted = [one or other for one, other in re.findall(r"'([^']+)'|\(([^)]+)", sentence)]
    if any(word.startswith(each) or each.startswith(word) for each in quoted for word in words if word):
        return True
    return any(word[:12] in sentence for whole in words for word in (whole, Path(whole).name) if len(word) > 2)


def _not_json(out: bytes) -> str:
    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    try:
        json.loads(out, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        return re.sub(r"\d+", "N", str(error))
    return ""


def _traceback(said: str) -> str:
    """The exception and the place in this package from which it came."""
    last = said[said.rindex("Traceback (most recent call last)") :]
    error = next((line for line in reversed(last.splitlines()) if re.match(r"[\w.]+(:|$)", line)), "?")
    name, _, words = error.partition(":")
    return f"{name.rpartition('.')[2]} in {':'.join(_frames(last)[-1])}: {_template(words)[:60]}"


def _frames(stack: str) -> list[tuple[str, str]]:
    """The files and functions of this package in a stack; of others, if there is none."""
    frames = re.findall(r'File "([^"]+)", line \d+,? in (\w+)', stack)
    home = f"{Path(str(sys.modules['unmask'].__file__)).parent}/"
    ours = [(path.removeprefix(home), function) for path, function in frames if path.startswith(home)]
    return ours or frames or [("?", "?")]


def _busy(stack: str) -> str:
    """What a command was doing: the function that it called itself, whatever that one called."""
    ours = _frames(stack)  # the innermost first
    place = next((place for place, (path, _) in enumerate(ours) if path.startswith("cli/")), 0)
    return ":".join(ours[max(0, place - 1)])


def _template(text: str) -> str:
    """A sentence without what differs between two lines that make the same mistake."""
    text = re.sub(r"'[^']*'", "'…'", " ".join(text.split()))
    text = re.sub(r"x{20,}|a{20,}", "…", re.sub(r"\d[\d.,e+-]*", "N", text))
    return text[:100]


def rules(codes: dict[str, dict[int, list[Outcome]]]) -> Iterator[tuple[str, str, Outcome]]:
    """Where a line that succeeds ends wrongly, or otherwise than others, when its output cannot be written."""
    for mode, ends in codes.items():
        usual = max(ends, key=lambda code: len(ends[code]))
        both = set(codes.get("gone", ())) | {0}  # a reader that reads one line may have read all
        for code, found in ends.items():
            names = ", ".join(sorted({end.line.command for end in found}))
            shortest = min(found, key=lambda end: len(str(end.line)))
            if code not in ALLOWED[mode]:
                yield "exit code", f"stdout {mode}: {code} is none of {ALLOWED[mode]}: {names}", shortest
            elif code != usual and not (mode == "head" and {code, usual} <= both):
                yield "exit code", f"stdout {mode}: {code} where others end with {usual}: {names}", shortest
            for end in found:
                if "Exception ignored" in end.err:
                    yield "noise", f"stdout {mode}: {_template(end.err)}", end


# Many of them


class Campaign:
    """Runs many lines and gathers what is wrong.

    Arguments:
        fuzzer: Who runs them.
        seed: Of the lines.
        jobs: How many at a time.
    """

    def __init__(self, fuzzer: Fuzzer, seed: int, jobs: int):
        self.fuzzer, self.seed, self.jobs = fuzzer, seed, jobs
        self.found: dict[tuple[str, str], tuple[Finding, Line]] = {}
        self.codes: dict[str, dict[int, list[Outcome]]] = collections.defaultdict(lambda: collections.defaultdict(list))
        self.ends: collections.Counter[int] = collections.Counter()
        self.slow: list[tuple[float, str]] = []
        self.done = 0

    def run(self, first: int, count: int, minutes: float) -> None:
        """Run so many lines, or as many as there is time for."""
        waiting, end_of_time = iter(range(first, first + count)), time.monotonic() + 60 * minutes
        twins: collections.deque[tuple[int, Line, str]] = collections.deque()
        running: dict[int, tuple[int, Line, str, Path, float]] = {}
        while True:
            while len(running) < self.jobs:
                if twins:
                    number, line, mode = twins.popleft()
                elif time.monotonic() < end_of_time and (number := next(waiting, -1)) >= 0:
                    self.done += 1
                    line, mode = self.fuzzer.grammar.line(self.seed, number), "file"
                else:
                    break
                child, place = self.fuzzer.start(line, mode)
                running[child] = number, line, mode, place, time.monotonic()
            if not running:
                return
            child, status, usage = os.wait4(-1, 0)
            if child not in running:
                continue
            number, line, mode, place, begin = running.pop(child)
            end = self.fuzzer.end(line, mode, place, status, usage, time.monotonic() - begin)
            self.take(number, end)
            if mode == "file" and end.code == 0 and end.out and not line.complete:
                rng = random.Random(f"{self.seed}-{number}-twin")
                if CONTROL.search(end.out.decode(errors="replace")):
                    twins.append((number, line, "terminal"))  # where they would be obeyed
                elif rng.random() < 0.2:
                    twins.append((number, line, rng.choice(MODES)))

    def take(self, number: int, end: Outcome) -> None:
        if end.code == 99 and "FUZZER" in end.err:
            raise RuntimeError(f"The fuzzer itself failed at line {number}: {end.err}")
        self.ends[end.code] += 1
        self.slow = sorted([*self.slow, (round(end.seconds, 1), str(end.line)[:200])], reverse=True)[:10]
        if end.mode not in ("file", "terminal"):
            self.codes[end.mode][end.code].append(end)
        for kind, what in judged(end, self.fuzzer.grammar):
            self.note(kind, what, number, end)

    def note(self, kind: str, what: str, number: int, end: Outcome) -> None:
        said = (end.stuck or end.err or end.out.decode(errors="replace"))[-2000:]
        new = Finding(kind, what, 1, number, str(end.line), end.line.words, end.mode, said, round(end.seconds, 1))
        old = self.found.get((kind, what))
        if old is None:
            self.found[kind, what] = new, end.line
            return
        new.count = old[0].count = old[0].count + 1
        if len(" ".join(end.line.words)) < len(" ".join(old[1].words)):
            self.found[kind, what] = new, end.line

    def finish(self) -> list[Finding]:
        """All findings, the worst first, each with a line from which nothing can be left out."""
        for kind, what, end in rules(self.codes):
            self.note(kind, what, -1, end)
        begin = time.monotonic()
        for (kind, what), (finding, line) in sorted(self.found.items(), key=lambda item: KINDS.index(item[0][0])):
            if kind != "hang" and finding.number >= 0 and time.monotonic() - begin < BUDGET:
                self._shorten(kind, what, finding, line)
        return sorted((each for each, _ in self.found.values()), key=lambda each: (KINDS.index(each.kind), -each.count))

    def _shorten(self, kind: str, what: str, finding: Finding, line: Line) -> None:
        place = tries = 0
        while place < len(line.parts) and tries < TRIES:
            less, tries = line.without(place), tries + 1
            end = self.fuzzer.run(less, finding.mode, patience=5)
            if (kind, what) in judged(end, self.fuzzer.grammar):
                line = less
                finding.line, finding.words, finding.said = str(line), line.words, (end.err or finding.said)[-2000:]
            else:
                place += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="Begin no line after so long.")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--files", type=Path, help="Only write the files that lines name, into this folder.")
    parser.add_argument("--show", action="store_true", help="Print the lines and run none.")
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        begin = time.monotonic()
        fuzzer = Fuzzer(folder)
        if options.files:
            shutil.copytree(folder / "files", options.files, symlinks=True)
            return
        if options.show:
            for number in range(options.first, options.first + options.count):
                print(number, fuzzer.grammar.line(options.seed, number))
            return
        fuzzer.warm()
        ready = time.monotonic()
        campaign = Campaign(fuzzer, options.seed, options.jobs)
        campaign.run(options.first, options.count, options.minutes)
        done = time.monotonic()
        found = campaign.finish()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    summary = {
        "count": campaign.done, "seed": options.seed, "guarded": fuzzer.guarded, "ready": round(ready - begin, 1),
        "seconds": round(done - ready, 1), "ends": dict(sorted(campaign.ends.items())),
        "modes": {mode: {code: len(ends) for code, ends in codes.items()} for mode, codes in campaign.codes.items()},
        "slow": campaign.slow,
    }  # fmt: skip
    if options.report:
        options.report.write_text(json.dumps({**summary, "findings": [asdict(each) for each in found]}, indent=1))
    print(*(f"{key}: {value}" for key, value in summary.items() if key != "slow"), sep="\n")
    print("slowest:", *(f"{seconds} s  {line}" for seconds, line in campaign.slow), sep="\n  ")
    totals: collections.Counter[str] = collections.Counter()
    for each in found:
        where = "" if each.mode == "file" else f"   [stdout: {each.mode}]"
        print(f"\n{each.kind} ({each.count}): {each.what}\n  {each.line}{where}")
        totals[each.kind] += each.count
    print(f"\n{campaign.done} command lines: {dict(totals) or 'nothing wrong'}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
