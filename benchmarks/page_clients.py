"""Many visitors of the page at once, on this machine alone: what each waits for, and that nobody meets an error.

    python benchmarks/page_clients.py [--clients 50] [--seconds 60] [--output clients.json]

`unmask explore` runs in a process of its own. A client opens the page as a browser does and keeps changing its fields
without a pause: most often the steps in *Schedules*, every tenth time a distribution, whose errors arrive as a stream.
Any answer but 200, any event that fails, any line on the server's terminal but its first is an error.
"""

import argparse
import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FAMILIES = ("markov", "parity", "mixture")
PATIENCE = 120  # seconds after which an answer that has not come is an error


class Client:
    """One page that is open, and how long it has waited for each answer."""

    def __init__(self, line, number, config, seed):
        self.line, self.session = line, f"client{number}"
        self.config = config
        self.fields = {each["id"]: each["props"] for each in config["components"]}
        self.rng = random.Random(seed + number)
        self.turn = 0
        self.waited = {"open": [], "slider": [], "stream": []}
        self.errors = []

    def event(self, label, queue):
        """The event that shows what the fields of a tab say, and the values of these; the tab is known by a label."""
        for each in self.config["dependencies"]:
            named = {self.fields[field].get("label") for field in each["inputs"]}
            numbered = each["inputs"] and self.fields[each["inputs"][0]].get("visible") == "hidden"
            if (
                each["backend_fn"]
                and each["queue"] == queue
                and label in named
                and numbered
                and len(each["outputs"]) > 3
            ):
                return each, [self.fields[field].get("value") for field in each["inputs"]]
        raise LookupError(label)

    def body(self, label, queue, values):
        event, data = self.event(label, queue)
        self.turn += 1
        data[0] = str(self.turn)
        for place, field in enumerate(event["inputs"]):
            data[place] = values.get(self.fields[field].get("label"), data[place])
        return {
            "data": data,
            "event_data": None,
            "fn_index": event["id"],
            "session_hash": self.session,
            "trigger_id": None,
        }

    async def opens(self):
        answer = await self.line.get("/")
        self.check(answer.status_code == 200 and b"gradio" in answer.content, f"/ {answer.status_code}")

    async def moves(self):
        body = self.body("Steps", False, {"Steps": self.rng.randint(1, 64), "Length": self.rng.randint(64, 512)})
        answer = await self.line.post("/gradio_api/run/predict", json=body)
        self.check(answer.status_code == 200 and "data" in answer.json(), f"slider {answer.status_code}")

    async def streams(self):
        body = self.body("Family", True, {"Family": self.rng.choice(FAMILIES), "Length": self.rng.randint(16, 64)})
        answer = await self.line.post("/gradio_api/queue/join", json=body)
        self.check(answer.status_code == 200, f"join {answer.status_code}")
        if answer.status_code != 200:
            return
        event = answer.json()["event_id"]
        async with self.line.stream("GET", f"/gradio_api/queue/data?session_hash={self.session}") as found:
            self.check(found.status_code == 200, f"stream {found.status_code}")
            async for row in found.aiter_lines():
                said = json.loads(row[5:]) if row.startswith("data:") else {}
                if said.get("msg") == "process_completed" and said.get("event_id") == event:
                    self.check(said["success"], "stream failed")
                if said.get("msg") in ("close_stream", "unexpected_error"):
                    self.check(said["msg"] == "close_stream", str(said)[:200])
                    return
        self.check(False, "stream ended early")

    def check(self, right, words):
        if not right:
            self.errors.append(words)

    async def stays(self, until):
        kind = "open"
        while True:
            begun = time.monotonic()
            try:
                await {"open": self.opens, "slider": self.moves, "stream": self.streams}[kind]()
            except Exception as error:  # whatever it is, a visitor would have met it
                self.errors.append(f"{kind} {error!r}"[:200])
            self.waited[kind].append(time.monotonic() - begun)
            if time.monotonic() >= until and self.waited["slider"]:  # each moves one, however busy the machine is
                return
            kind = "stream" if self.rng.random() < 0.1 else "slider"


async def visited(address, clients, seconds, seed=0):
    """Seconds of every answer by kind, and every error, of so many clients for so long."""
    import httpx

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=address, timeout=PATIENCE, limits=limits, trust_env=False) as line:
        config = (await line.get("/config")).json()
        those = [Client(line, number, config, seed) for number in range(clients)]
        until = time.monotonic() + seconds
        await asyncio.gather(*(each.stays(until) for each in those))
    waited = {kind: [time for each in those for time in each.waited[kind]] for kind in ("open", "slider", "stream")}
    return waited, [error for each in those for error in each.errors]


def summary(times):
    return {
        "answers": len(times),
        "median_ms": round(1000 * statistics.median(times)),
        "p95_ms": round(1000 * sorted(times)[int(0.95 * len(times))]),
        "most_ms": round(1000 * max(times)),
    }


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--clients", type=int, default=50)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--output", type=Path, help="Write the numbers to this file as well.")
    chosen = options.parse_args()
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port = trial.getsockname()[1]
    with tempfile.TemporaryFile("w+") as log:
        command = [sys.executable, "-c", "from unmask.cli import main; main()"]
        server = subprocess.Popen(
            [*command, "explore", "--no-browser", "--port", str(port)], stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            first = server.stdout.readline() if server.stdout is not None else ""
            if not first.startswith("Running on"):
                log.seek(0)
                sys.exit(f"The page did not start: {log.read()}")
            begun = time.monotonic()
            waited, errors = asyncio.run(visited(f"http://127.0.0.1:{port}", chosen.clients, chosen.seconds))
            spent = time.monotonic() - begun
        finally:
            server.terminate()
            server.wait()
        log.seek(0)
        errors += [line for line in log.read().splitlines() if line.strip()]
    count = sum(map(len, waited.values()))
    record = {
        "clients": chosen.clients,
        "seconds": round(spent, 1),
        "cores": os.cpu_count(),
        "answers": count,
        "errors": len(errors),
        **{kind: summary(times) for kind, times in waited.items() if times},
    }
    print(f"{chosen.clients} clients, {spent:.0f} s: {count} answers, {len(errors)} errors")
    print(f"{'':12} answers  median   95 %   most (ms)")
    for kind in waited:
        if kind in record:
            row = record[kind]
            print(f"{kind:12} {row['answers']:7d}  {row['median_ms']:6d} {row['p95_ms']:6d} {row['most_ms']:6d}")
    for words in sorted(set(errors))[:10]:
        print(f"error: {words}", file=sys.stderr)
    if chosen.output is not None:
        chosen.output.write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(bool(errors))


if __name__ == "__main__":
    main()
