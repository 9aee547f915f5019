"""Problems of the decision service: codes, statuses, sentences."""

import http
import re

import pytest

from bothworlds.errors import BothworldsError
from bothworlds.protocol import RETRYABLE
from bothworlds.serve.problems import KINDS, Problem


@pytest.mark.parametrize("code", KINDS)
def test_a_kind_is_complete(code):
    kind = KINDS[code]
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", code)
    assert http.HTTPStatus(kind.status).value in {*range(400, 500), 500, 503}
    assert not kind.title.endswith(".")
    assert kind.advice.endswith(".")


def test_a_problem_is_an_error_of_the_house_with_a_document():
    problem = Problem("rate_limited", "The key k1 may ask 5 times a second.", retry_after=0.2)
    assert isinstance(problem, BothworldsError)
    assert problem.retry_after == 0.2
    assert problem.document("r7") == {
        "type": "urn:bothworlds:problem:rate_limited",
        "title": "Too many requests with this key",
        "status": 429,
        "detail": "The key k1 may ask 5 times a second.",
        "code": "rate_limited",
        "request_id": "r7",
    }


def test_without_a_detail_the_title_is_the_sentence():
    assert Problem("expired").detail == "The feedback window of the decision is over."


def test_an_unknown_code_is_a_mistake_of_the_programmer():
    with pytest.raises(KeyError):
        Problem("no_such_code")


def test_what_may_be_retried_is_answered_with_429_or_503():
    assert {KINDS[code].status for code in RETRYABLE} == {429, 503}
