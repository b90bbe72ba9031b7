"""The server of the page: a thread that listens on a port which is ours before anything is said about it."""

import logging
import socket
import threading
import time
from typing import Any, final

import uvicorn

from unmask import _check as check

_FIRST, _PORTS = 7860, 100  # the ports that are tried where none is asked for
_LEAVE = 5  # seconds for those who are still being answered


def listening(host: str, port: int | None) -> socket.socket:
    """A socket on an address of this machine.

    Arguments:
        host: The address. port: The port; the first free one from 7860 on by default.

    Raises:
        InputError: if the address is not one of this machine, or the port is taken.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host.strip("[]"), 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.bind(address)
    except (OSError, UnicodeError):
        raise check.InputError("host", "be an address of this machine", found=f"'{host}'") from None
    for each in range(_FIRST, _FIRST + _PORTS) if port is None else (port,):
        found = socket.socket(family, kind, protocol)
        # A port that was ours a moment ago is free, though the system still remembers its last visitors.
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((address[0], each, *address[2:]))
            found.listen(2048)
        except OSError:
            found.close()
        else:
            return found
    where = f"{host}:{port}" if port is not None else f"no port from {_FIRST} to {_FIRST + _PORTS - 1} on {host}"
    detail = f"but {where} is{' not' if port is not None else ''}"
    raise check.InputError("port", "be free to listen on", detail=detail, remedy="Choose another port.")


@final
class Server:
    """Answers on a socket, in a thread of its own, until it is closed.

    Arguments:
        app: What answers. at: The socket.
    """

    def __init__(self, app: Any, at: socket.socket):
        # What is wrong with a request is the visitor's to know; a warning for each would fill the terminal.
        logging.getLogger("python_multipart").setLevel(logging.CRITICAL)
        config = uvicorn.Config(
            app, log_level="error", ws="none", lifespan="on", server_header=False,
            timeout_graceful_shutdown=_LEAVE, proxy_headers=False,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([at],), daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Return once it answers, however long a busy machine takes.

        Raises:
            RuntimeError: if it ends before that.
        """
        while not self._server.started:
            if not self._thread.is_alive():
                raise RuntimeError("The page could not be started.")
            time.sleep(0.01)

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """Stop answering."""
        self._server.should_exit = True
        self._thread.join(timeout=_LEAVE + 1)
