"""Requests made from the OpenAPI document, right and wrong: what it says is what happens."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from bothworlds.serve.http.app import ROUTES
from helpers.served import served
from helpers.waiting import HANG

pytestmark = [pytest.mark.processes, pytest.mark.slow]

EXAMPLES = 4
TOO_LARGE = (413, 431)
# Events go on for ever.
CHECKED = [route for route in ROUTES if route.operation != "events"]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    store = tmp_path_factory.mktemp("schema") / "store.db"
    with served(store, "--experiment", "headline", "--arms", "a,b,c") as running:
        yield running
        assert '"level": "error"' not in running.log(), running.log()


@pytest.fixture(scope="module")
def document(service):
    return schemathesis.openapi.from_url(f"{service.url}/openapi.json")


BREAKABLE = [route for route in CHECKED if route.body is not None or route.query is not None]
CASES = [
    *((route, GenerationMode.POSITIVE) for route in CHECKED),
    *((route, GenerationMode.NEGATIVE) for route in BREAKABLE),
]


@pytest.mark.parametrize(
    ("route", "mode"), CASES, ids=[f"{route.operation}-{mode.value}" for route, mode in CASES]
)
def test_the_document_tells_the_truth(document, route, mode):
    operation = document[route.path][route.method]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    def check(case):
        if mode is GenerationMode.POSITIVE and "experiment" in case.path_parameters:
            # Names that are made up are not found, which tells little.
            case.path_parameters["experiment"] = "headline"
        # A schema cannot say which tokens are signed, or which policies are served.
        excluded = [positive_data_acceptance]
        response = case.call(timeout=HANG)
        if response.status_code in TOO_LARGE:
            # Schemathesis does not know these for refusals.
            excluded.append(negative_data_rejection)
        case.validate_response(response, excluded_checks=excluded)

    check()
