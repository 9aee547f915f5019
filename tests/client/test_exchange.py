"""HTTP messages of the client: addresses, requests, and responses in any pieces."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bothworlds.client.exchange import Endpoint, Malformed, Parser
from bothworlds.errors import InvalidParameter


@pytest.mark.parametrize(
    ("url", "authority", "prefix"),
    [
        ("http://127.0.0.1:8080", "127.0.0.1:8080", ""),
        ("http://example.org/a/b/", "example.org", "/a/b"),
        ("https://[::1]:8443", "[::1]:8443", ""),
    ],
)
def test_an_address_is_read(url, authority, prefix):
    endpoint = Endpoint.of(url)
    assert (endpoint.authority, endpoint.prefix) == (authority, prefix)
    assert endpoint.request("GET", "/x", {}, None).startswith(f"GET {prefix}/x HTTP/1.1".encode())


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8080", "ftp://a", "http://", "http://a:b", "http://a:99999", "http://u:p@a",
        "http://a?x=1", "http://a/\r\nHost: b", "http://a b", 7, None,
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused(url):
    with pytest.raises(InvalidParameter, match="The url of Client must be an address"):
        Endpoint.of(url)


RESPONSES = [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello", True),
    (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nab",
        201, b"ab", True,
    ),
    (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
    (b"HTTP/1.1 200\r\ncontent-length:0\r\nConnection: close\r\n\r\n", 200, b"", False),
    (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, b"x", False),
    (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n",
        200, b"abc", True,
    ),
    (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nT: 1\r\n\r\n",
        200, b"a", True,
    ),
]  # fmt: skip


@given(st.sampled_from(RESPONSES), st.lists(st.integers(0, 120), max_size=8))
def test_a_response_is_the_same_in_whatever_pieces_it_arrives(case, cuts):
    raw, status, body, reusable = case
    places = sorted({0, len(raw), *(c for c in cuts if c < len(raw))})
    parser = Parser()
    found = [parser.feed(raw[a:b]) for a, b in itertools.pairwise(places)]
    assert found[:-1] == [None] * (len(found) - 1)
    assert (found[-1].status, found[-1].body, found[-1].reusable) == (status, body, reusable)


def test_without_a_length_the_body_ends_with_the_connection():
    parser = Parser()
    assert parser.feed(b"HTTP/1.1 200 OK\r\n\r\nhal") is None
    assert parser.feed(b"lo") is None
    response = parser.end()
    assert (response.body, response.reusable) == (b"hallo", False)


@pytest.mark.parametrize(
    "raw",
    [
        b"SMTP ready\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000,
    ],
)
def test_what_is_no_response_is_noticed(raw):
    with pytest.raises(Malformed):
        Parser().feed(raw)


def test_half_a_response_is_none():
    parser = Parser()
    parser.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel")
    with pytest.raises(Malformed, match="middle"):
        parser.end()
    with pytest.raises(Malformed, match="middle"):
        Parser().end()
