"""A page that is served by the command itself, and those who ask it: for the tests of the guard."""

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import time

TRACEBACK = "Traceback"


def free_port():
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return trial.getsockname()[1]


@contextlib.contextmanager
def explorer(folder, *options, port=None):
    """`unmask explore` in a process of its own; the port, and what it has said so far."""
    port = port or free_port()
    command = [sys.executable, "-c", "from unmask.cli import main; main()", "explore", "--no-browser"]
    log = folder / "log.txt"
    # Nothing outside this machine may be needed, nor a proxy that somebody has set up.
    environment = {**os.environ, "HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, "--port", str(port), *options], stdout=file, stderr=subprocess.STDOUT, env=environment
        )
        try:
            until = time.monotonic() + 120
            while b"Running on" not in log.read_bytes():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.05)
            yield port, process, log
        finally:
            process.kill()
            process.wait()


def raw(port, sent, wait=10):
    """What the page answers to these bytes, up to the end of the connection or a second of silence."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=wait) as line:
        with contextlib.suppress(OSError):
            line.sendall(sent)
        with contextlib.suppress(OSError):
            while part := line.recv(65536):
                answer += part
                if b"\r\n\r\n" in answer:
                    line.settimeout(0.05)
    return answer


def asked(port, method="GET", path="/", headers=(), body=b""):
    """A request by hand, with exactly these headers; the status of its answer, 0 if there is none."""
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    if body and not any(name.lower() in ("content-length", "transfer-encoding") for name, _ in headers):
        lines.append(f"Content-Length: {len(body)}")
    text = "\r\n".join([*lines, "Connection: close", "", ""]).encode("utf-8", "surrogatepass")
    answer = raw(port, text + body)
    return int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0


VALUES = [
    None,
    True,
    False,
    0,
    1,
    -1,
    7,
    10**20,
    10**30,
    10**400,
    1e308,
    -0.5,
    1.5,
    "",
    "a",
    "even",
    "comb",
    "<b>",
    "\x00",
    "é" * 50,
    "_" * 5000,
    "\ud800",
    "nan",
    "-inf",
    "9" * 50,
    [],
    [1],
    ["even"],
    ["even", "nope"],
    [[]],
    [None],
    [{}],
    {},
    {"a": 1},
    {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}},
    {"path": "http://127.0.0.1:9/x", "meta": {"_type": "gradio.FileData"}},
    {"path": "a\x00b", "url": 3},
    {"path": ["x"]},
    {"__type__": "update", "value": 3},
]


def nested(depth):
    return "[" * depth + "]" * depth


def bodies(rng, config):
    """Bodies for events, most of them a little wrong."""
    events = {each["id"]: len(each["inputs"]) for each in config["dependencies"]}
    usual = {each["id"]: each["props"].get("value") for each in config["components"]}
    whole = [each for each in config["dependencies"] if each["backend_fn"]]
    while True:
        number = rng.choice([*events, *events, *events, -1, 10**6, "0", None, True, 1.5, [0]])
        count = events.get(number, 2) if isinstance(number, int) else 2
        count += rng.choice([0, 0, 0, 0, 0, -1, 1])
        body = {
            "data": [rng.choice(VALUES) for _ in range(max(count, 0))],
            "fn_index": number,
            "session_hash": rng.choice(["fuzz", "fuzz", "fuzz", "s" * 300, 3, None, "é", "\x00"]),
            "event_data": rng.choice([None, None, {}, {"index": [1]}, 3, nested(3)]),
            "trigger_id": rng.choice([None, None, 0, 3, 10**9, "x"]),
        }
        if rng.random() < 0.4:  # as the page would send it, but for one value at most
            event = rng.choice(whole)
            data = [usual[field] for field in event["inputs"]]
            if data:
                data[rng.randrange(len(data))] = rng.choice(VALUES)
            body |= {
                "data": data,
                "fn_index": event["id"],
                "session_hash": "fuzz",
                "event_data": None,
                "trigger_id": None,
            }
        for name in rng.sample(sorted(body), rng.choice([0, 0, 0, 1])):
            del body[name]
        if rng.random() < 0.1:
            body[rng.choice(["batched", "simple_format", "oauth_token", "event_id", "extra"])] = rng.choice(VALUES)
        text = json.dumps(body)
        yield rng.choice(
            [text] * 12 + [text[:-3], "\ufeff" + text, text.replace("null", "NaN"), "", "[]", "3", nested(90_000)]
        )


def garbled(rng, size):
    return bytes(rng.randrange(256) for _ in range(size))


def uploads(rng):
    """Content type and body of uploads, none of which is whole."""
    part = b'Content-Disposition: form-data; name="files"; filename="a.json"\r\n\r\n{}'
    while True:
        name = rng.choice(["a.json", "../../a", "a\x00b", "é" * 90, "", "x" * 300, 'a"b', "/etc/passwd"])
        named = f'Content-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n{{}}'.encode()
        yield rng.choice(
            [
                ("multipart/form-data", b"--x\r\n" + part + b"\r\n--x--\r\n"),
                ("multipart/form-data; boundary=", b"--x\r\n" + part),
                ("multipart/form-data; boundary=x", b"--x\r\n" + part),
                ("multipart/form-data; boundary=x", b"--y\r\n" + part + b"\r\n--y--\r\n"),
                ("multipart/form-data; boundary=x", b"--x\r\nContent-Disposition\r\n\r\n\r\n--x--\r\n"),
                ("multipart/form-data; boundary=x", b"--x\r\n\xff\xfe: \x00\r\n\r\n" + garbled(rng, 50) + b"\r\n--x--"),
                ("multipart/form-data; boundary=x", b"--x\r\n" + named + b"\r\n--x--\r\n"),
                ("multipart/form-data; boundary=x; charset=nope", b"--x\r\n" + named + b"\r\n--x--\r\n"),
                ("multipart/form-data; boundary=" + "b" * 300, garbled(rng, 400)),
                ("multipart/form-data; boundary=é", b"--x"),
                ("application/json", b"{}"),
                ("", b"abc"),
            ]
        )


PATHS = [
    "/nope",
    "/gradio_api/",
    "/gradio_api/nope",
    "/gradio_api/run/nope",
    "/gradio_api/call/x",
    "/gradio_api/component_server",
    "/gradio_api/file=/etc/passwd",
    "/gradio_api/file=%00",
    "/gradio_api/file=" + "a" * 3000,
    "/gradio_api/file=http://127.0.0.1:9/",
    "/gradio_api/file=../../x",
    "/gradio_api/file=%ff%fe",
    "/gradio_api/proxy=http://127.0.0.1:9/",
    "/gradio_api/queue/data",
    "/gradio_api/queue/data?session_hash=unknown",
    "/gradio_api/queue/data?session_hash=%ff",
    "/gradio_api/upload_progress",
    "/gradio_api/call/x/y",
    "/gradio_api/stream/a/b/c/playlist.m3u8",
    "/gradio_api/vibe-code",
    "/gradio_api/runs",
    "/gradio_api/deep_link",
    "/monitoring",
    "/monitoring/x",
    "/static/../../../etc/passwd",
    "/static/%2e%2e/%2e%2e/etc/passwd",
    "/static/nope.js",
    "/static/",
    "/assets/%00",
    "/assets/" + "a" * 5000,
    "/svelte/x",
    "/login",
    "/docs",
    "/openapi.json",
    "//",
    "//evil.example/",
    "/%",
    "/%zz",
    "/\u00e9",
    "/;",
    "/*",
    "/?" + "a" * 70_000,
    "/config?x=%ff",
    "/a b",
    "http://evil.example/",
    "/.well-known/x",
    "/gradio_api/heartbeat/",
    "/gradio_api/heartbeat/a/b",
    "/gradio_api/custom_component/1/client/component/x",
    "/?deep_link=../../x",
    "/?tab=nope&length=%00",
    "/manifest.json",
    "/theme.css?x",
    "/robots.txt",
]
METHODS = ["GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "NOPE"]


def fuzzed(port, config, seed, count):
    """Send so many requests; each as it was sent, with the status of its answer."""
    rng = random.Random(seed)
    event, upload = bodies(rng, config), uploads(rng)
    own = [("Host", f"127.0.0.1:{port}")]
    for _ in range(count):
        kind = rng.choice(["event", "event", "event", "other", "upload", "path", "path", "raw"])
        if kind == "event":
            path = rng.choice(["/gradio_api/queue/join", "/gradio_api/run/predict"])
            what = (
                "POST",
                path,
                [*own, ("Content-Type", "application/json")],
                next(event).encode("utf-8", "surrogatepass"),
            )
        elif kind == "other":
            path = rng.choice(
                ["/gradio_api/cancel", "/gradio_api/reset", "/gradio_api/queue/join", "/gradio_api/run/predict"]
            )
            sent = rng.choice(["application/json", "text/plain", "application/json; charset=utf-16", "", "é/é"])
            values = {name: rng.choice(VALUES) for name in ("event_id", "session_hash", "fn_index", "data")}
            body = rng.choice([json.dumps(values).encode(), garbled(rng, 60), json.dumps(values).encode("utf-16")])
            what = (
                "POST",
                path,
                [*own, ("Content-Type", sent), ("Content-Encoding", rng.choice(["", "gzip", "nope"]))],
                body,
            )
        elif kind == "upload":
            sent, body = next(upload)
            what = ("POST", "/gradio_api/upload", [*own, ("Content-Type", sent)], body)
        elif kind == "path":
            what = (
                rng.choice(METHODS),
                rng.choice(PATHS),
                [*own, ("Accept-Encoding", rng.choice(["br", "", "é", "*"]))],
                b"",
            )
        else:
            what = None
            sent = rng.choice(
                [
                    garbled(rng, 200),
                    b"\r\n\r\n",
                    b"GET / HTTP/1.1\r\n\r\n",
                    b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
                    b"GET /\r\n\r\n",
                    f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: evil.example\r\n\r\n".encode(),
                    f"POST /gradio_api/reset HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: -1\r\n\r\n".encode(),
                    f"POST /gradio_api/reset HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nTransfer-Encoding: chunked\r\n"
                    "Content-Type: application/json\r\n\r\nzz\r\n".encode(),
                ]
            )
            answer = raw(port, sent, wait=1)
            yield sent, int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0
        if what is not None:
            yield what, asked(port, *what)
