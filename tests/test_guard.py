"""A page that trusts nobody: who may ask it, for what, how much at a time; and how it begins and ends."""

import asyncio
import importlib.util
import signal
import socket
import time
from pathlib import Path

import pytest

for package in ("torch", "gradio", "httpx"):
    pytest.importorskip(package, reason=f"the tests of the page need {package}: pip install 'unmask[app]'")

import visitors  # noqa: E402
from unmask.app.guard import BODY, UPLOAD, Guard, Names, Refusal, is_name  # noqa: E402

OWN, EVIL = "127.0.0.1:7860", "evil.example"
JOIN, PREDICT, UPLOADS = "/gradio_api/queue/join", "/gradio_api/run/predict", "/gradio_api/upload"


# Names


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.0.0.2", "LOCALHOST"])
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]", "LocalHost", "localhost."])
def test_a_page_of_this_machine_is_called_by_the_names_of_this_machine(host, name):
    names = Names(host, 7860)
    assert names.host(f"{name}:7860")
    assert names.origin(f"http://{name}:7860", f"{name}:7860")


@pytest.mark.parametrize(
    "host",
    [
        "",
        EVIL,
        f"{EVIL}:7860",
        "127.0.0.1",
        "127.0.0.1:7861",
        "localhost",
        "127.0.0.1:7860:7860",
        "127.0.0.1.evil.example:7860",
        "evil.example@127.0.0.1:7860",
        "127.0.0.1:7860@evil.example",
        "[::1",
        "192.168.0.5:7860",
        "localhost:",
        " localhost:7860",
        "localhost:7860,evil.example",
        "2130706433:7860",
        "0.0.0.0:7860",
        "\u0661:7860",
        "a" * 300,
    ],
)
def test_no_other_host_is_its_own(host):
    assert not Names("127.0.0.1", 7860).host(host)


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "http://evil.example",
        "http://127.0.0.1",
        "http://127.0.0.1:7861",
        "https://127.0.0.1:7860",
        "127.0.0.1:7860",
        "file://",
        "http://127.0.0.1:7860.evil.example",
        "http://evil.example:7860",
        "http://127.0.0.1:7860/",
        "ftp://127.0.0.1:7860",
    ],
)
def test_no_other_origin_is_its_own(origin):
    assert not Names("127.0.0.1", 7860).origin(origin, OWN)


def test_a_page_for_everybody_is_called_by_its_addresses_and_the_names_of_the_machine():
    names = Names("0.0.0.0", 7860, machine=["box", "box.lan"])
    for host in ("192.168.0.5:7860", "localhost:7860", "box:7860", "BOX.lan:7860", "[fe80::1]:7860"):
        assert names.host(host)
        assert names.origin(f"http://{host}", host)
    for host in (f"{EVIL}:7860", "192.168.0.5:80", "box:1", "box.evil.example:7860"):
        assert not names.host(host)
    # An address is nobody's name, so that of another machine is not the page's origin.
    assert not names.origin("http://6.6.6.6:7860", "192.168.0.5:7860")


def test_other_names_are_allowed_by_name_with_any_port_or_with_one():
    names = Names("127.0.0.1", 7860, ["plots.example.org", "other.example:8443"])
    assert names.host("plots.example.org")
    assert names.host("plots.example.org:99")
    assert names.origin("https://plots.example.org", OWN)
    assert names.host("other.example:8443")
    assert not names.host("other.example")
    assert not names.host("sub.plots.example.org")
    assert [is_name(text) for text in ("a.b", "a:1", "[::1]:2", "", "a b", "http://a", "a/b", "*")] == [True] * 3 + [
        False
    ] * 5


# The guard around an application of two lines


async def reached(scope, receive, send):
    parts, more = [], True
    while more and scope["method"] == "POST":
        message = await receive()
        parts, more = [*parts, message["body"]], message["more_body"]
    scope["reached"] = b"".join(parts)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def status(method="GET", path="/", headers=((b"host", b"127.0.0.1:7860"),), parts=(b"",), kind="http", app=reached):
    """The status of the answer, 0 if there is none, and whether the application was reached."""
    said, waiting = [], [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    waiting[-1]["more_body"] = False

    async def receive():
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    async def send(message):
        said.append(message)

    scope = {"type": kind, "method": method, "path": path, "headers": list(headers), "query_string": b""}
    judge = lambda path, value: None if isinstance(value, dict) else Refusal(422, "No object.")  # noqa: E731
    asyncio.run(Guard(app, Names("127.0.0.1", 7860), judge)(scope, receive, send))
    answers = [each["status"] for each in said if each["type"] == "http.response.start"]
    assert len(answers) <= 1
    if answers and answers[0] >= 400:
        assert sum(len(each.get("body", b"")) for each in said) < 200
    return (answers or [0])[0], scope.get("reached")


def headed(*more, host=OWN):
    return [(b"host", host.encode()), *((name.encode(), value.encode()) for name, value in more)]


def test_requests_of_strangers_end_before_the_page():
    assert status() == (200, b"")
    assert status(headers=[]) == (403, None)
    assert status(headers=headed(host=EVIL)) == (403, None)
    assert status(headers=[*headed(), *headed()]) == (403, None)
    assert status(headers=headed(("x-forwarded-host", EVIL))) == (403, None)
    assert status(headers=headed(("origin", f"http://{EVIL}"))) == (403, None)
    assert status(headers=headed(("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors"))) == (403, None)
    # A link on another page may be followed.
    assert status(headers=headed(("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"))) == (200, b"")


@pytest.mark.parametrize("path", [JOIN, PREDICT, UPLOADS, "/gradio_api/cancel", "/gradio_api/reset"])
def test_nothing_changes_for_a_page_without_an_origin(path):
    kind = ("content-type", "multipart/form-data; boundary=x" if path == UPLOADS else "application/json")
    for origin, wanted in (("null", 403), (f"http://{EVIL}", 403), (f"http://{OWN}", 200)):
        assert status("POST", path, headed(kind, ("origin", origin)), [b"{}"])[0] == wanted
    assert status(headers=headed(("origin", "null")))[0] == 200


def test_web_sockets_are_closed():
    said = []

    async def send(message):
        said.append(message["type"])

    scope = {"type": "websocket", "path": JOIN, "headers": headed()}
    asyncio.run(Guard(reached, Names("127.0.0.1", 7860), lambda path, value: None)(scope, None, send))
    assert said == ["websocket.close"]


JSON = ("content-type", "application/json")


def test_a_length_that_is_no_number_is_refused():
    assert (
        status("POST", PREDICT, [*headed(JSON), (b"content-length", b"\xb2")], [b"{}"])[0] == 413
    )  # ², a digit to some


@pytest.mark.parametrize(
    ("headers", "parts", "wanted"),
    [
        ([JSON], [b'{"a": ', b"1}"], 200),
        ([JSON, ("content-length", str(BODY + 1))], [b"{}"], 413),
        ([JSON, ("content-length", "9" * 5000)], [b"{}"], 413),
        ([JSON, ("content-length", "-1")], [b"{}"], 413),
        ([JSON], [b" " * (BODY // 4)] * 5, 413),
        ([JSON], [b"{"], 400),
        ([JSON], [b""], 400),
        ([JSON], ["{}".encode("utf-16")], 400),
        ([JSON], [b'{"a": NaN}'], 400),
        ([JSON], [b"[" * 200_000], 400),
        ([JSON], [b'{"a": ' + b"9" * 5000 + b"}"], 400),
        ([JSON], [b"3"], 422),
        ([("content-type", "text/plain")], [b"{}"], 415),
        ([], [b"{}"], 415),
    ],
)
def test_a_body_is_bounded_and_json(headers, parts, wanted):
    found, body = status("POST", JOIN, headed(*headers), parts)
    assert found == wanted
    assert body == (b"".join(parts) if wanted == 200 else None)


def test_an_upload_is_bounded_whatever_it_says_of_itself():
    kind = ("content-type", "multipart/form-data; boundary=x")
    part = b"x" * (1 << 20)
    assert status("POST", UPLOADS, headed(kind), [part] * 3)[0] == 200
    assert status("POST", UPLOADS, headed(kind), [part] * ((UPLOAD >> 20) + 1))[0] == 413
    assert status("POST", UPLOADS, headed(kind, ("content-length", str(2 * UPLOAD))), [part])[0] == 413


@pytest.mark.parametrize(
    ("method", "path", "wanted"),
    [
        ("GET", "/nope", 404),
        ("GET", "/gradio_api/vibe-code", 404),
        ("POST", "/gradio_api/component_server", 404),
        ("GET", "/gradio_api/proxy=http://evil.example/", 404),
        ("GET", "/gradio_api/queue/data", 404),
        ("GET", "/assets/a\x00", 400),
        ("GET", "/assets/" + "a" * 300, 404),
        ("GET", "/" + "a" * 70_000, 414),
        ("POST", "/", 405),
        ("GET", JOIN, 405),
        ("DELETE", "/", 405),
        ("OPTIONS", JOIN, 405),
        ("HEAD", "/", 200),
    ],
)
def test_only_what_the_page_uses_is_there(method, path, wanted):
    assert status(method, path)[0] == wanted


def test_what_fails_inside_is_a_short_answer_and_one_line(caplog):
    async def fails(scope, receive, send):
        raise ZeroDivisionError("a\nb")

    assert status(app=fails)[0] == 500
    (record,) = caplog.records
    assert record.getMessage() == "The page could not answer /: ZeroDivisionError('a\\nb')"
    assert record.exc_info is None
    caplog.clear()
    kind = ("content-type", "multipart/form-data; boundary=x")
    assert status("POST", UPLOADS, headed(kind), [b"x"], app=fails)[0] == 400
    assert caplog.records == []


# The command itself


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with visitors.explorer(tmp_path_factory.mktemp("page")) as (port, process, log):
        yield port, process, log


@pytest.fixture(scope="module")
def config(served):
    import httpx

    return httpx.get(f"http://127.0.0.1:{served[0]}/config", trust_env=False, timeout=60).json()


def test_the_first_line_is_the_only_one(served):
    """Also where a proxy is set up that cannot be reached, as it is for this one."""
    port, _, log = served
    assert log.read_text() == f"Running on http://127.0.0.1:{port}/ (Ctrl+C ends it)\n"


def test_a_rebound_name_gets_nothing_from_the_page(served):
    port = served[0]
    paths = ("/", "/names", "/config", "/theme.css", "/gradio_api/info", "/gradio_api/heartbeat/x")
    for path in (*paths, "/static/img/logo.svg"):
        assert visitors.asked(port, "GET", path, [("Host", f"{EVIL}:{port}")]) == 403
        assert visitors.asked(port, "GET", path) in (400, 403)  # without a name at all
    own = [("Host", f"localhost:{port}")]
    for path in ("/", "/names"):
        assert visitors.asked(port, "GET", path, own) == 200
        assert visitors.asked(port, "GET", path, [*own, ("Origin", f"http://localhost:{port}")]) == 200
        assert visitors.asked(port, "GET", path, [*own, ("Origin", f"http://{EVIL}")]) == 403
    upgrade = [("Upgrade", "websocket"), ("Sec-WebSocket-Key", "eA=="), ("Sec-WebSocket-Version", "13")]
    for host in (EVIL, f"localhost:{port}"):
        assert visitors.asked(port, "GET", JOIN, [("Host", host), *upgrade]) in (400, 403, 404, 405)
    for path in (JOIN, PREDICT, UPLOADS):
        assert visitors.asked(port, "POST", path, [*own, ("Origin", "null")], b"{}") == 403


def test_a_file_is_one_that_was_uploaded(served, config, calibration_file):
    """Gradio itself would fetch an address that an event names, from wherever it is."""
    import httpx

    port = served[0]
    fields = {each["id"]: each for each in config["components"]}
    event = next(
        each for each in config["dependencies"]
        if each["backend_fn"] and not each["queue"] and any(fields[field]["type"] == "file" for field in each["inputs"])
    )  # fmt: skip

    def sent(path):
        file = {"path": path, "orig_name": "a.json", "meta": {"_type": "gradio.FileData"}}
        data = [
            file if fields[each]["type"] == "file" else fields[each]["props"].get("value") for each in event["inputs"]
        ]
        body = {"data": data, "fn_index": event["id"], "session_hash": "files", "event_data": None, "trigger_id": None}
        return line.post(PREDICT, json=body).status_code

    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as line:
        with calibration_file.open("rb") as file:
            (path,) = line.post(UPLOADS, files={"files": ("a.json", file)}).json()
        assert sent(path) == 200
        for other in (str(calibration_file), "http://127.0.0.1:9/a.json", f"{path}/../../../a", "/etc/passwd"):
            assert sent(other) == 422


@pytest.fixture
def calibration_file(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    return tmp_path / "a.json"


def test_malformed_requests_are_answered_in_a_sentence_and_leave_no_trace(served, config):
    """600 of them, from one seed. What is not HTTP at all may get no answer."""
    port, process, log = served
    begun, found = time.monotonic(), {}
    for what, answer in visitors.fuzzed(port, config, 7, 600):
        assert answer < 500, what
        assert answer or isinstance(what, bytes), what
        found[answer] = found.get(answer, 0) + 1
        if time.monotonic() - begun > 60:  # a busy machine
            break
    assert sum(found.values()) >= 100
    assert found.get(200, 0) < 0.2 * sum(found.values())  # some are whole by chance
    assert process.poll() is None
    assert visitors.asked(port, headers=[("Host", f"127.0.0.1:{port}")]) == 200
    assert log.read_text().count("\n") == 1, log.read_text()[:2000]


def test_eight_clients_meet_no_error(served):
    """`benchmarks/page_clients.py` has fifty for a minute."""
    place = Path(__file__).parent.parent / "benchmarks" / "page_clients.py"
    module = importlib.util.module_from_spec(spec := importlib.util.spec_from_file_location("page_clients", place))
    spec.loader.exec_module(module)
    waited, errors = asyncio.run(module.visited(f"http://127.0.0.1:{served[0]}", clients=8, seconds=3))
    assert errors == []
    assert len(waited["open"]) == 8
    assert len(waited["slider"]) >= 8
    assert served[2].read_text().count("\n") == 1


def test_a_port_that_is_taken_is_one_sentence(served):
    from click.testing import CliRunner

    from unmask.cli import main

    result = CliRunner().invoke(main, ["explore", "--no-browser", "--port", str(served[0])])
    assert result.exit_code == 2
    words = f"Error: --port must be free to listen on, but 127.0.0.1:{served[0]} is not. Choose another port."
    assert result.output.strip().splitlines()[-1] == words


def test_a_name_that_is_none_is_refused_at_its_option():
    from click.testing import CliRunner

    from unmask.cli import main

    result = CliRunner().invoke(main, ["explore", "--no-browser", "--allow-host", "http://a/"])
    assert result.exit_code == 2
    assert "--allow-host must be a name such as plots.example.org, not 'http://a/'." in result.output


def test_the_next_free_port_is_taken(monkeypatch):
    from unmask.app import server

    with socket.socket() as first:
        first.bind(("127.0.0.1", 0))
        first.listen()
        monkeypatch.setattr(server, "_FIRST", first.getsockname()[1])
        with server.listening("127.0.0.1", None) as found:
            assert found.getsockname()[1] > first.getsockname()[1]
        monkeypatch.setattr(server, "_PORTS", 1)
        with pytest.raises(
            ValueError,
            match=r"^Argument 'port' must be free to listen on, but no port from .* is\. Choose another port",
        ):
            server.listening("127.0.0.1", None)


def test_ctrl_c_ends_it_quietly(served):
    """The last one: there is no page afterwards."""
    _, process, log = served
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 0
    assert log.read_text().count("\n") == 1, log.read_text()[-2000:]
