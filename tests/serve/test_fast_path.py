"""The fast path answers as the plain path does, and uvicorn has the parts that it needs."""

import asyncio
import inspect
import json
import re
import socket
from operator import attrgetter

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from bothworlds.serve.http import fast_path
from bothworlds.serve.ops.admin import create_key
from helpers.served import served
from helpers.waiting import HANG
from serve.test_connection import Transport

SHOP = "https://shop.example.com"
OPTIONS = (
    "--experiment", "headline", "--arms", "a,b,c", "--require-keys", "--cors-origin", SHOP,
)  # fmt: skip
VARYING = re.compile(
    rb"(?m)^date: .*\r\n|(?<=\"decision_id\":)\"[^\"]+\"|(?<=\"expires_at\":)[0-9.]+"
    rb"|(?<=\"token\":)\"[^\"]+\""
    rb"|(?<=x-request-id: )[0-9a-f]{8}-[0-9a-f]+|(?<=\"request_id\":)\"[0-9a-f]{8}-[0-9a-f]+\""
)
"""Dates, signed ids and the ids that the server gives to requests."""
ARM = re.compile(rb"(?<=\"arm\":)\"[abc]\"")
"""Drawn at random, each with probability 1/3 until feedback is learned."""


class Peer:
    """One connection to a service, which sends bytes and returns whole answers."""

    def __init__(self, service):
        self.socket = socket.create_connection((service.host, service.port), HANG)
        self.rest = b""

    def read(self):
        """Return the next answer, as it was sent; b"" once the service has hung up."""
        while True:
            head, found, rest = self.rest.partition(b"\r\n\r\n")
            if found:
                length = re.search(rb"(?i)content-length: (\d+)", head)
                end = int(length[1]) if length else 0
                if len(rest) >= end:
                    self.rest = rest[end:]
                    return head + found + rest[:end]
            data = self.socket.recv(65_536)
            if not data:
                return b""
            self.rest += data

    def ask(self, data):
        self.socket.sendall(data)
        return self.read()


def request(method, path, body=b"", *headers, version=b"1.1"):
    lines = [b"%b %b HTTP/%b" % (method, path, version), b"Host: localhost", *headers]
    if body is not None:
        lines.append(b"Content-Length: %d" % len(body))
        lines.append(b"Content-Type: application/json")
    return b"\r\n".join(lines) + b"\r\n\r\n" + (body or b"")


def hosts(path, auth):
    """Return requests without the header Host, by HTTP/1.1 and by HTTP/1.0, and one with two."""
    host = b"Host: localhost\r\n"
    without = [request(b"POST", path, b"", auth, version=v) for v in (b"1.1", b"1.0")]
    return [each.replace(host, b"") for each in without] + [request(b"POST", path, b"", host[:-2])]


def conversation(service, key, narrow):
    """Return the answers of a service to the same requests; feedback names its own decisions."""
    auth = b"Authorization: Bearer " + key.encode()
    own_page = b"Authorization: Bearer " + narrow.encode()
    decide = b"/v1/experiments/headline/decisions"

    def told(id, body):
        return request(b"PUT", b"/v1/decisions/%b/feedback" % id, body, auth)

    answers = []
    peer = Peer(service)
    answers += [peer.ask(request(b"POST", decide, b"", auth)) for _ in range(3)]
    ids = [json.loads(each.partition(b"\r\n\r\n")[2])["decision_id"].encode() for each in answers]
    for body in (
        b"{}", b'{"available": ["a", "b"]}', b'{"unit": "u7"}', b'{"deferred": true}',
        b'{"available": []}', b'{"available": ["z"]}', b'{"unknown": 1}', b"{", b"[]",
    ):  # fmt: skip
        answers += [peer.ask(request(b"POST", decide, body, auth)) for _ in range(2)]
    own = b"X-Request-Id: mine-1"
    for more in (
        [auth, own],
        [auth, b"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
        [auth, b"Idempotency-Key: once"],
        [auth, b"Idempotency-Key: no good"],
        [auth, b"X-Request-Id: not an id"],
        [own],
        [b"Authorization: Bearer bw_x_y", own],
        [b"Authorization: Basic abc", own],
    ):
        answers += [peer.ask(request(b"POST", decide, b"", *more)) for _ in range(2)]
    for path in (
        decide + b"?vector=1", decide + b"?vector=maybe", decide + b"?x=1",
        b"/v1/experiments/head%20line/decisions", b"/v1/experiments/other/decisions",
        b"/v1/experiments/%68eadline/decisions",
    ):  # fmt: skip
        answers += [peer.ask(request(b"POST", path, b"", auth)) for _ in range(2)]
    # Pages of other origins, allowed or not, with a key for decisions or one for everything.
    minted = peer.ask(request(b"POST", b"/v1/decide-tokens", b"{}", own_page))
    token = json.loads(minted.partition(b"\r\n\r\n")[2])["token"].encode()
    answers.append(minted)
    for origin in (SHOP.encode(), b"https://evil.example", b"null"):
        page = b"Origin: " + origin
        for method in (b"POST", b"GET"):
            asked = b"Access-Control-Request-Method: " + method
            answers.append(peer.ask(request(b"OPTIONS", decide, None, page, asked)))
        for given in (auth, own_page, b"Authorization: Bearer " + token):
            answers += [peer.ask(request(b"POST", decide, b"", given, page)) for _ in range(2)]
        answers.append(peer.ask(request(b"POST", decide, b"{", own_page, page)))
        answers.append(peer.ask(request(b"POST", decide, b"", page)))
    many = decide + b":batch"
    answers += [peer.ask(request(b"POST", many, b'{"count": %d}' % n, auth)) for n in (2, 0, 257)]
    answers.append(peer.ask(request(b"GET", decide, b"", auth)))
    answers.append(peer.ask(request(b"POST", decide, None, auth)))
    chunked = request(b"POST", decide, None, auth, b"Transfer-Encoding: chunked")
    answers.append(peer.ask(chunked + b"2\r\n{}\r\n0\r\n\r\n"))
    answers.append(peer.ask(request(b"POST", decide, b"{}", auth).replace(b"json", b"xml")))
    # Two requests in one piece, and one in two.
    both = request(b"POST", decide, b"", auth)
    answers += [peer.ask(both + both), peer.read()]
    peer.socket.sendall(both[:40])
    answers.append(peer.ask(both[40:]))
    answers.append(peer.ask(request(b"POST", decide, b" " * 70_000, auth)))
    for last in (
        request(b"POST", decide, b"", auth, b"Connection: close"),
        request(b"POST", decide, b"", auth, version=b"1.0"),
        request(b"POST", decide, b"", auth, b"X: " + b"x" * 17_000),
        b"nonsense\r\n\r\n",
        *hosts(decide, auth),
    ):
        peer = Peer(service)
        answers += [peer.ask(last), peer.read()]
    # Last, since it changes probabilities: learned, twice, another loss, out of bounds, nothing.
    peer = Peer(service)
    for id, body in (
        (ids[0], b'{"loss": 0.5}'), (ids[0], b'{"loss": 0.5}'), (ids[0], b'{"loss": 0.25}'),
        (ids[1], b'{"reward": 1}'), (ids[2], b'{"loss": 7}'), (ids[2], b"{}"), (ids[2], b""),
        (ids[2], b'{"loss": 0.5, "reward": 0.5}'), (b"nonsense", b'{"loss": 0.5}'),
        (ids[1][:-1] + (b"A" if ids[1][-1:] != b"A" else b"B"), b'{"loss": 0.5}'),
    ):  # fmt: skip
        answers.append(peer.ask(told(id, body)))
    return answers


def comparable(answer):
    head, _, body = ARM.sub(b'"?"', VARYING.sub(b"*", answer)).partition(b"\r\n\r\n")
    # The length of a body goes with the ids in it. A server may send its headers in any order.
    first, *headers = re.sub(rb"content-length: \d+", b"content-length: *", head).split(b"\r\n")
    return first, sorted(headers), body


@pytest.mark.processes
@pytest.mark.parametrize("options", [(), ("--plain-http",)], ids=["fast", "plain"])
def test_a_request_names_one_host(tmp_path, options):
    store = tmp_path / "store.db"
    key = create_key(str(store), ["decide"])
    auth = b"Authorization: Bearer " + key.encode()
    with served(store, *OPTIONS, *options) as service:
        sent = hosts(b"/v1/experiments/none/decisions", auth)
        found = [Peer(service).ask(each) for each in sent]
    assert [each.split()[1] for each in found] == [b"400", b"404", b"400"]
    assert b"exactly one header Host" in found[0] and b"exactly one header Host" in found[2]


@pytest.mark.processes
def test_both_paths_answer_the_same(tmp_path):
    found = {}
    for name, options in (("fast", ()), ("plain", ("--plain-http",))):
        store = tmp_path / f"{name}.db"
        key = create_key(str(store), ["decide", "feedback", "admin"])
        narrow = create_key(str(store), ["decide", "feedback"])
        with served(store, *OPTIONS, *options) as service:
            found[name] = [comparable(each) for each in conversation(service, key, narrow)]
            log = service.log()
            assert '"level": "error"' not in log, log
    assert len(found["fast"]) > 60
    statuses = {each[0].split(b" ")[1] for each in found["fast"] if each[0]}
    assert statuses >= {b"200", b"201", b"204", b"400", b"401", b"403", b"404", b"405", b"409",
                        b"413", b"415", b"431"}  # fmt: skip
    for place, (fast, plain) in enumerate(zip(found["fast"], found["plain"], strict=True)):
        assert fast == plain, place


def in_request():
    """Return a protocol of uvicorn that has read the head of a request."""

    async def app(scope, receive, send):
        await receive()

    async def run():
        config = uvicorn.Config(app, ws="none", log_config=None, proxy_headers=False)
        config.load()
        protocol = HttpToolsProtocol(config, ServerState(), {})
        protocol.connection_made(Transport())
        protocol.data_received(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
        await asyncio.sleep(0)
        missing = [name for name in fast_path.UVICORN if not has(protocol, name)]
        protocol.connection_lost(None)
        return missing

    return asyncio.run(run())


def has(protocol, name):
    try:
        attrgetter(name)(protocol)
    except AttributeError:
        return False
    return True


def test_uvicorn_has_every_part_that_is_used():
    missing = {name: fast_path.UVICORN[name] for name in in_request()}
    assert missing == {}, f"uvicorn {uvicorn.__version__} lacks parts that fast_path.py uses"
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(fast_path.UVICORN, "cycle.no_such_part", "a part that is missing")
        assert in_request() == ["cycle.no_such_part"]


def test_uvicorn_has_no_other_part_that_is_used():
    """Every attribute of the protocol that the module reads is in the list."""
    kinds = (fast_path.LimitedConnection, fast_path.FastConnection)
    own = set().union(*map(vars, kinds))
    used = set(re.findall(r"\bself\.([a-z_]+)", "".join(map(inspect.getsource, kinds))))
    theirs = {name for name in used if hasattr(HttpToolsProtocol, name) or name in protocol_names()}
    listed = {name.partition(".")[0] for name in fast_path.UVICORN}
    # The ASGI application is documented.
    assert theirs - own - {"app"} <= listed


def protocol_names():
    config = uvicorn.Config(lambda: None, ws="none", log_config=None, proxy_headers=False)
    config.load()

    async def made():
        return set(vars(HttpToolsProtocol(config, ServerState(), {})))

    return asyncio.run(made())
