"""The page over HTTP: on 127.0.0.1 only, under its secret, for its own page only."""

import http.client
import json
import socket
import threading
from contextlib import contextmanager

import pytest

from songrank.core.errors import UserError
from songrank.serving.explorer import ExplorerServer


@contextmanager
def served(explorer):
    with ExplorerServer(explorer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def server(explorer):
    with served(explorer) as server:
        yield server


def ask(server, method="GET", path="", body=None, secret=None, **headers):
    port = server.server_address[1]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, f"/{server.secret if secret is None else secret}/{path}", body, names)
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def recommended(server, question, **headers):
    body = question if isinstance(question, bytes) else json.dumps(question).encode()
    return ask(server, "POST", "recommend", body, **{"Content_Type": "application/json", **headers})


def test_the_page_and_its_parts_come_with_a_policy(server):
    for path, kind in (("", "text/html"), ("page.js", "text/javascript"), ("page.css", "text/css")):
        response, body = ask(server, path=path)
        assert response.status == 200
        assert response.headers["Content-Type"] == f"{kind}; charset=utf-8"
        assert len(body) > 500
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in response.headers


def test_answers_are_those_of_the_explorer(server, explorer):
    assert json.loads(ask(server, path="start")[1]) == explorer.start()
    assert json.loads(ask(server, path="users?text=u1")[1]) == ["u1", "u10", "u11"]
    assert json.loads(ask(server, path="items?text=%3Cb")[1]) == explorer.items("<b")
    question = {"user": "u1", "k": 3, "history": ["i3"], "with_seen": True}
    assert json.loads(recommended(server, question)[1]) == explorer.recommend(**question)


def test_it_listens_on_this_machine_only(server):
    assert server.socket.getsockname()[0] == "127.0.0.1"
    assert server.url.startswith(f"http://127.0.0.1:{server.server_address[1]}/")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", server.server_address[1]), timeout=5).close()


@pytest.mark.parametrize("path", ["", "start", "users?text=", "page.js", "../", "%2e%2e/x", "page.html", "a/b"])
def test_nothing_is_served_without_the_secret(server, path):
    for secret in ("", "x", server.secret[:-1], server.secret + "x", "%C3%A9"):
        response, body = ask(server, path=path, secret=secret)
        assert response.status == 404
        assert server.secret.encode() not in body


@pytest.mark.parametrize("path", ["../", "%2e%2e/x", "page.html", "a/b", "answers.py", "/etc/passwd"])
def test_no_other_file_is_served(server, path):
    assert ask(server, path=path)[0].status == 404


def test_requests_of_other_pages_are_rejected(server):
    """A page of the web whose own name leads to 127.0.0.1, and one that sends a request to the address."""
    question = {"user": "u1"}
    assert recommended(server, question)[0].status == 200
    for headers in ({"Host": "evil.example"}, {"Host": "127.0.0.1"}, {"Origin": "http://evil.example"}):
        assert recommended(server, question, **headers)[0].status == 403
        assert ask(server, path="start", **headers)[0].status == 403
    assert recommended(server, question, Content_Type="text/plain")[0].status == 404  # what a form can send
    own = f"localhost:{server.server_address[1]}"
    assert recommended(server, question, Host=own, Origin=f"http://{own}")[0].status == 200


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (b"{", "the request is not a JSON object with user, k, history, with_seen"),
        (b"[]", "the request is not a JSON object"),
        (b"\xff", "the request is not a JSON object"),
        ({"k": 3}, "the request is not a JSON object"),
        ({"user": "u1", "more": 1}, "the request is not a JSON object"),
        ({"user": 1}, "user of the request has type int"),
        ({"user": "u1", "k": True}, "k of the request has type bool"),
        ({"user": "u1", "k": 2.5}, "k of the request has type float"),
        ({"user": "u1", "history": [3]}, "history of the request has items that are not texts"),
        ({"user": "u1", "history": ["<x>"]}, "unknown item '<x>'"),
        ({"user": "u1", "k": 10**30}, "expected 1 to 200"),
    ],
)
def test_a_wrong_request_gets_one_line(server, question, message):
    response, body = recommended(server, question)
    assert response.status == 400
    assert message in json.loads(body)["error"]
    assert "\n" not in json.loads(body)["error"]


@pytest.mark.parametrize("length", ["1000001", "-1", "many", None])
def test_a_request_of_the_wrong_length_is_not_read(server, length):
    with socket.create_connection(server.server_address, timeout=20) as connection:
        host = f"127.0.0.1:{server.server_address[1]}"
        lines = [f"POST /{server.secret}/recommend HTTP/1.0", f"Host: {host}", "Content-Type: application/json"]
        lines += [] if length is None else [f"Content-Length: {length}"]
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        assert connection.recv(100).startswith(b"HTTP/1.0 413 ")


def test_a_bug_is_answered_and_the_server_goes_on(server, monkeypatch):
    def fails():
        raise RuntimeError("broken")

    monkeypatch.setattr(server.explorer, "start", fails)
    response, body = ask(server, path="start")
    assert (response.status, json.loads(body)) == (500, {"error": "RuntimeError: broken"})
    assert ask(server)[0].status == 200


def test_a_port_that_is_in_use_is_named(server, explorer):
    with pytest.raises(UserError, match=rf"port {server.server_address[1]} cannot be used .* pass another --port"):
        ExplorerServer(explorer, server.server_address[1])


def test_each_server_has_its_own_address(server, explorer):
    with served(explorer) as other:
        assert other.secret != server.secret
        assert len(other.secret) >= 20
