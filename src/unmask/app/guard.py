"""Who may ask the page, and for what: an ASGI layer between the server and Gradio.

A page on this machine can be reached by every web page that its owner has open elsewhere. A stranger's page may send
requests to `127.0.0.1`, and after DNS rebinding its browser takes the explorer for a part of the stranger's site. So
each request must name the explorer in its `Host`, and in its `Origin` if it has one. After that come the paths that
the page uses, the size of the body, and what an event carries. Whatever fails is answered in one sentence with a
status of 4xx, before Gradio sees it.
"""

import asyncio
import json
import logging
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, final
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY = 1 << 20  # bytes of a request that is not an upload; every text of the page is in one
UPLOAD = 64 << 20  # bytes of an uploaded file
_FORM = 1 << 16  # bytes of an upload beside its file
_ADDRESS = 1 << 16  # bytes of a path and query; a link has at most 4,096 letters, each of up to 12 bytes
_PART = 255  # bytes between two slashes: no file has a longer name
_PATIENCE = 30  # seconds to wait for the next part of a body
_SESSIONS = 10_000  # remembered
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_EVERYWHERE = ("0.0.0.0", "::")

_API = "/gradio_api/"
_READ = re.compile(
    r"/|/(config|names|theme\.css|favicon\.ico|robots\.txt|manifest\.json)|/(static|assets|svelte)/.+"
    rf"|{_API}(info|app_id|startup-events|queue/data|queue/status|upload_progress|heartbeat/[^/]+|file=.+)",
)
_WRITE = re.compile(rf"{_API}(queue/join|run/predict|cancel|reset|upload)")
_UPLOADS = f"{_API}upload"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Refusal:
    """Why a request is not answered.

    Attributes:
        status: The status of the answer. sentence: Its text.
    """

    status: int
    sentence: str


# What is wrong with the JSON that was sent to a path, if anything is.
Judge = Callable[[str, Any], Refusal | None]


@final
class Names:
    """The names under which the page may be asked for.

    Arguments:
        host: The address it listens on. port: The port.
        more: Other names, as `NAME` for any port or `NAME:PORT`: those of a proxy, say.

    Example:
        >>> names = Names("127.0.0.1", 7860, ["plots.example.org"])
        >>> names.host("localhost:7860"), names.host("evil.example:7860"), names.host("plots.example.org")
        (True, False, True)
        >>> names.origin("http://127.0.0.1:7860", "localhost:7860"), names.origin("null", "localhost:7860")
        (True, False)
    """

    def __init__(self, host: str, port: int, more: Iterable[str] = (), machine: Iterable[str] = ()):
        host = host.strip("[]").lower()
        self.everywhere = host in _EVERYWHERE
        local = self.everywhere or host in _LOOPBACK or _is_loopback(host)
        own = {host, *(_LOOPBACK if local else ()), *(machine if self.everywhere else ())}
        self._own = {(name.lower(), port) for name in own - set(_EVERYWHERE)}
        self._more = {_parted(name) for name in more} - {None}
        self._port = port

    def host(self, header: str) -> bool:
        """Whether a `Host` is the page's own."""
        found = _parted(header)
        if found is None:
            return False
        name, port = found
        if self._is_more(name, port) or (name, port or 80) in self._own:
            return True
        # A name can be made to point anywhere; an address is where the request has really gone.
        return self.everywhere and (port or 80) == self._port and _is_address(name)

    def origin(self, header: str, host: str) -> bool:
        """Whether an `Origin` is the page's own, for a `Host` that is."""
        scheme, _, rest = header.partition("://")
        found = _parted(rest)
        if found is None or scheme not in ("http", "https"):
            return False
        name, port = found
        if self._is_more(name, port):
            return True
        # Somebody else's address is an address too: it must be the very one that was asked.
        here = _parted(host)
        asked = here is not None and (name, port or 80) == (here[0], here[1] or 80)
        return scheme == "http" and ((name, port or 80) in self._own or asked)

    def _is_more(self, name: str, port: int | None) -> bool:
        return (name, None) in self._more or (name, port) in self._more


def _parted(text: str) -> tuple[str, int | None] | None:
    """Name and port of `NAME`, `NAME:PORT`, `[ADDRESS]` or `[ADDRESS]:PORT`; None if it is none of them."""
    found = re.fullmatch(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::([0-9]{1,5}))?", text.lower(), flags=re.ASCII)
    if found is None:
        return None
    name = found[1] or found[2].removesuffix(".")
    return name, int(found[3]) if found[3] else None


def is_name(text: str) -> bool:
    """Whether a text can be one of the `more` names."""
    return _parted(text) is not None


def _is_address(name: str) -> bool:
    try:
        return bool(ip_address(name))
    except ValueError:
        return False


def _is_loopback(name: str) -> bool:
    return _is_address(name) and ip_address(name).is_loopback


@final
class Guard:
    """Passes on what the page may be asked for, and refuses everything else.

    Arguments:
        app: What answers. names: The page's own names. judge: Looks at the JSON that a path was sent.
    """

    def __init__(self, app: Application, names: Names, judge: Judge):
        self.app = app
        self.names = names
        self.judge = judge
        self._sessions: OrderedDict[str, None] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        refusal = self._stranger(scope)
        if scope["type"] != "http":
            # The page uses no web sockets.
            await send({"type": "websocket.close", "code": 1008, "reason": "The page has none."})
            return
        try:
            refusal = refusal or self._unknown(scope)
            if refusal is None and scope["method"] == "POST":
                receive, refusal = await self._read(scope, receive)
        except _Late:
            refusal = Refusal(408, "The request did not arrive in time.")
        except _Gone:
            return
        if refusal is None:
            refusal = await self._answered(scope, receive, send)
        if refusal is not None:
            await _say(scope, send, refusal)

    def _stranger(self, scope: Scope) -> Refusal | None:
        hosts, origins = _values(scope, b"host"), _values(scope, b"origin")
        forwarded = [each.split(",")[0].strip() for each in _values(scope, b"x-forwarded-host")]
        if len(hosts) != 1 or not all(map(self.names.host, [*hosts, *forwarded])):
            return Refusal(403, "This page does not go by that name. See: unmask explore --help (--allow-host)")
        safe = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        for origin in origins:
            if not (self.names.origin(origin, hosts[0]) or (safe and origin == "null")):
                return Refusal(403, "Other pages may not ask this one.")
        # A picture or script of another site has no `Origin`, but browsers say where it is from.
        if "cross-site" in _values(scope, b"sec-fetch-site") and "navigate" not in _values(scope, b"sec-fetch-mode"):
            return Refusal(403, "Other pages may not ask this one.")
        # Gradio would believe this one.
        scope["headers"] = [pair for pair in scope["headers"] if pair[0] != b"x-gradio-server"]
        return None

    def _unknown(self, scope: Scope) -> Refusal | None:
        path, query = scope["path"], scope.get("query_string", b"")
        if len(scope.get("raw_path") or path.encode(errors="replace")) + len(query) > _ADDRESS:
            return Refusal(414, "The address is too long.")
        if re.search(r"[\x00-\x1f\x7f\ud800-\udfff\\]", path):
            return Refusal(400, "The address has characters that no address of this page has.")
        if not any(known.fullmatch(path) for known in (_READ, _WRITE)) or any(
            len(part.encode()) > _PART for part in path.split("/")
        ):
            return Refusal(404, "This page has nothing there.")
        if not (_READ if scope["method"] in ("GET", "HEAD") else _WRITE).fullmatch(path) or (
            scope["method"] not in ("GET", "HEAD", "POST")
        ):
            return Refusal(405, "That cannot be done there.")
        if path == f"{_API}queue/data":
            found = parse_qs(query.decode("latin-1"), errors="replace").get("session_hash", [""])
            if found[0] not in self._sessions:
                return Refusal(404, "Nobody with that session has asked for anything.")
        return None

    async def _read(self, scope: Scope, receive: Receive) -> tuple[Receive, Refusal | None]:
        """The body of a request, looked at, to be received once more."""
        upload = scope["path"] == _UPLOADS
        most = UPLOAD + _FORM if upload else BODY
        large = Refusal(413, f"A request may have at most {most >> 20} MiB.")
        said = _values(scope, b"content-length")
        if said and (not said[0].isdecimal() or int(said[0][:20]) > most):
            return receive, large
        kind = _values(scope, b"content-type")
        wanted = "multipart/form-data" if upload else "application/json"
        if len(kind) != 1 or kind[0].split(";")[0].strip().lower() != wanted:
            return receive, Refusal(415, f"This must be sent as {wanted}.")
        if upload:
            return _counted(scope, receive, most), None
        body = bytearray()
        more = True
        while more:
            part = await _next(receive)
            body += part.get("body", b"")
            more = part.get("more_body", False)
            if len(body) > most:
                return receive, large
        try:
            value = json.loads(body.decode(), parse_constant=_no_constant)
        except (ValueError, RecursionError):
            return receive, Refusal(400, "The request is not JSON.")
        refusal = self.judge(scope["path"], value)
        if refusal is None and isinstance(value.get("session_hash"), str):
            self._sessions[value["session_hash"]] = None
            self._sessions.move_to_end(value["session_hash"])
            if len(self._sessions) > _SESSIONS:
                self._sessions.popitem(last=False)
        return _again(bytes(body), receive), refusal

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> Refusal | None:
        """Let the page answer; what it fails at is said in a sentence, or cut short where it has begun to answer."""
        begun = failed = False

        async def passed(message: MutableMapping[str, Any]) -> None:
            nonlocal begun, failed
            if message["type"] == "http.response.start":
                failed = message["status"] == 500 or "unmask.large" in scope
                begun = not failed
            if not failed:
                await send(message)

        error = None
        try:
            await self.app(scope, receive, passed)
        except _Late:
            return None if begun else Refusal(408, "The upload did not arrive in time.")
        except _Gone:
            return None
        except Exception as found:
            error = found
        if begun:
            if error is not None:
                # An event stream of a session that is over: its last message says so.
                _log.debug("An answer ended early.", exc_info=error)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            return None
        if not failed and error is None:
            return None
        if "unmask.large" in scope:
            return scope["unmask.large"]
        if scope["path"] == _UPLOADS and not isinstance(error, OSError | MemoryError):
            return Refusal(400, "The upload cannot be read.")
        _log.error("The page could not answer %s: %s", scope["path"][:80], " ".join(repr(error)[:200].split()))
        return Refusal(500, "Something went wrong on the page.")


class _Gone(Exception):
    """The visitor has left."""


class _Late(Exception):
    """The visitor is there, and sends nothing more."""


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _no_constant(word: str) -> Any:
    raise ValueError(word)  # NaN and Infinity are not JSON


async def _next(receive: Receive) -> MutableMapping[str, Any]:
    try:
        message = await asyncio.wait_for(receive(), _PATIENCE)
    except TimeoutError:
        raise _Late from None
    if message["type"] == "http.disconnect":
        raise _Gone
    return message


def _again(body: bytes, receive: Receive) -> Receive:
    """Gives a body that was read, and then whatever else happens."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> MutableMapping[str, Any]:
        return waiting.pop() if waiting else await receive()

    return again


def _counted(scope: Scope, receive: Receive, most: int) -> Receive:
    """Passes a body on up to so many bytes. The rest is taken for the end, and the scope remembers why."""
    read, over = 0, False

    async def counted() -> MutableMapping[str, Any]:
        nonlocal read, over
        message = await (receive() if over else _next(receive))
        read += len(message.get("body", b""))
        over = not message.get("more_body", False)
        if read > most:
            over = True
            scope["unmask.large"] = Refusal(413, f"An upload may have at most {most >> 20} MiB.")
            return {"type": "http.request", "body": b"", "more_body": False}
        return message

    return counted


async def _say(scope: Scope, send: Send, refusal: Refusal) -> None:
    kind, body = "text/plain; charset=utf-8", refusal.sentence + "\n"
    if scope["path"].startswith(_API):  # where a program of the page reads it
        kind, body = "application/json", json.dumps({"detail": refusal.sentence})
    headers = [
        (b"content-type", kind.encode()),
        (b"content-length", str(len(body)).encode()),
        # What was not read of the body must not be taken for the next request.
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body.encode()})
