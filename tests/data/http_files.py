"""A server on this machine that has one file, and can misbehave in the ways that real ones do."""

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Files:
    """What is served, and how; ``requests`` collects the headers of what was asked."""

    content: bytes
    etag: str | None = '"one"'
    modified: str | None = None
    ranges: bool = True
    if_range: bool = True
    lengths: bool = True
    cuts: list[int] = field(default_factory=list)
    """The first answers break off after so many bytes of their body."""
    statuses: list[int] = field(default_factory=list)
    """The first answers are these refusals."""
    redirect: str | None = None
    after_request: object = None
    """Called with self after each answer: to change the file midway."""
    requests: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    @property
    def asked_ranges(self):
        return [headers.get("Range") for headers in self.requests]


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        files = self.server.files
        files.requests.append(dict(self.headers))
        if files.redirect and self.path != files.redirect:
            self._answer(302, b"", {"Location": files.redirect})
        elif files.statuses:
            self._answer(files.statuses.pop(0), b"no")
        else:
            self._send(files)
        if files.after_request:
            files.after_request(files)

    def _send(self, files):
        start, total = self._start(files), len(files.content)
        if start > 0 and start >= total:
            self._answer(416, b"", {"Content-Range": f"bytes */{total}"})
            return
        headers = {"ETag": files.etag, "Last-Modified": files.modified}
        if start:
            headers["Content-Range"] = f"bytes {start}-{total - 1}/{total}"
        cut = files.cuts.pop(0) if files.cuts else None
        self._answer(206 if start else 200, files.content[start:], headers, cut, files.lengths)

    def _start(self, files):
        asked = self.headers.get("Range")
        if not files.ranges or not asked:
            return 0
        if files.if_range and self.headers.get("If-Range") not in (None, files.etag, files.modified):
            return 0
        return int(asked.removeprefix("bytes=").removesuffix("-"))

    def _answer(self, status, body, headers=None, cut=None, lengths=True):
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body)) if lengths else None}.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body if cut is None else body[:cut])

    def log_message(self, *_):
        pass


@contextmanager
def serve(content, **behaviour):
    """A ``Files`` at ``url`` for as long as it is needed."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.files = Files(content, **behaviour)
    server.files.url = f"http://127.0.0.1:{server.server_address[1]}/some%20folder/ratings.zip?version=2"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.files
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
