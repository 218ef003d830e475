"""The page and its answers over HTTP, on 127.0.0.1 only and under an address that cannot be guessed."""

import hmac
import json
import secrets
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs

from songrank.core.errors import UserError, memory_shortage
from songrank.serving.explorer.answers import Explorer

ADDRESS = "127.0.0.1"
_MOST_BYTES = 1_000_000
_PAGE = {
    "": ("page.html", "text/html"),
    "page.js": ("page.js", "text/javascript"),
    "page.css": ("page.css", "text/css"),
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class ExplorerServer(ThreadingHTTPServer):
    """Serves the page of ``songrank explore`` at :attr:`url` until it is closed.

    It listens on 127.0.0.1. The address has a random part, so that other users of the machine do not find it; requests
    for another host, which a page of the web could send through its own name, are rejected.

    Args:
        explorer: the answers.
        port: port of the page; 0 for a free one.
    """

    daemon_threads = True

    def __init__(self, explorer: Explorer, port: int = 0) -> None:
        self.explorer, self.secret, self.lock = explorer, secrets.token_urlsafe(16), threading.Lock()
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UserError(
                f"port {port} cannot be used ({reason}); pass another --port, or 0 for a free one"
            ) from None

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{ADDRESS}:{self.server_address[1]}/{self.secret}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks off concerns only its browser."""


class _Handler(BaseHTTPRequestHandler):
    server: ExplorerServer
    timeout = 30
    server_version, sys_version = "songrank", ""

    def do_GET(self) -> None:
        """The page, and searches."""
        path, asked = self._path()
        if path is None:
            return
        explorer = self.server.explorer
        if path in _PAGE:
            name, kind = _PAGE[path]
            self._send(200, files("songrank.serving.explorer").joinpath(name).read_bytes(), kind)
        elif path == "start":
            self._answer(explorer.start)
        elif path == "users":
            self._answer(lambda: explorer.users(asked.get("text", "")))
        elif path == "items":
            self._answer(lambda: explorer.items(asked.get("text", "")))
        else:
            self._error(404, "not found")

    def do_POST(self) -> None:
        """Recommendations."""
        path, _ = self._path()
        if path is None:
            return
        if path != "recommend" or self.headers.get_content_type() != "application/json":
            return self._error(404, "not found")
        try:
            size = int(self.headers.get("Content-Length", ""))
        except ValueError:
            size = -1
        if not 0 <= size <= _MOST_BYTES:
            return self._error(413, f"expected at most {_MOST_BYTES} bytes")
        body = self.rfile.read(size)
        self._answer(lambda: self.server.explorer.recommend(**_question(body)))

    def _path(self) -> tuple[str | None, dict[str, str]]:
        """The path behind the secret, and the query; None if the request was answered."""
        own = f"{ADDRESS}:{self.server.server_address[1]}"
        local = (own, own.replace(ADDRESS, "localhost"))
        if self.headers.get("Host") not in local or self.headers.get("Origin", f"http://{own}") not in [
            f"http://{name}" for name in local
        ]:
            self._error(403, f"expected the host {own}")
            return None, {}
        path, _, query = self.path.partition("?")
        _, *pieces = path.split("/")
        if len(pieces) != 2 or not hmac.compare_digest(pieces[0].encode(), self.server.secret.encode()):
            self._error(404, "not found; open the address that the command printed")
            return None, {}
        return pieces[1], {key: values[-1] for key, values in parse_qs(query).items()}

    def _answer(self, ask: Callable[[], Any]) -> None:
        """The answer as JSON; the message of an error instead of it."""
        try:
            with self.server.lock:
                content = ask()
        except UserError as error:
            return self._error(400, str(error))
        except Exception as error:
            return self._error(500, memory_shortage(error) or f"{type(error).__name__}: {error}")
        self._send(200, json.dumps(content).encode(), "application/json")

    def _error(self, code: int, message: str) -> None:
        self._send(code, json.dumps({"error": message}).encode(), "application/json")

    def _send(self, code: int, content: bytes, kind: str) -> None:
        self.send_response(code)
        for name, value in {**_HEADERS, "Content-Type": f"{kind}; charset=utf-8"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        """Requests are not logged."""


def _question(body: bytes) -> dict[str, Any]:
    """The arguments of a request for recommendations."""
    try:
        asked = json.loads(body)
    except ValueError:
        asked = None
    kinds: dict[str, Any] = {"user": str, "k": int, "history": list | None, "with_seen": bool}
    if not isinstance(asked, dict) or not {"user"} <= asked.keys() <= kinds.keys():
        raise UserError(f"the request is not a JSON object with {', '.join(kinds)}; reload the page")
    for name, value in asked.items():
        if not isinstance(value, kinds[name]) or (name == "k" and isinstance(value, bool)):
            raise UserError(f"{name} of the request has type {type(value).__name__}; reload the page")
    if any(not isinstance(item, str) for item in asked.get("history") or []):
        raise UserError("history of the request has items that are not texts; reload the page")
    return asked
