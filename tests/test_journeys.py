"""The tracer of journeys: what it counts, and in which threads."""

import threading

from bothworlds import markup, seeding
from helpers.journeys import Journey, tracing


def test_a_return_is_a_change_back_to_a_visited_file():
    journey = Journey()
    journey.path = ["a.py", "b.py", "a.py", "c.py", "b.py"]
    assert (journey.files, journey.changes, journey.returns) == (["a.py", "b.py", "c.py"], 4, 2)
    assert (Journey().files, Journey().changes, Journey().returns) == ([], 0, 0)


def test_calls_are_traced_inside_the_block_and_in_threads_that_start_while_tracing():
    with tracing() as tracer:
        seeding.checked_seed(7, "a test")
        with tracer.journey() as journey:
            seeding.checked_seed(7, "a test")
            thread = threading.Thread(target=markup.named, args=("x",))
            thread.start()
            thread.join()
        seeding.checked_seed(7, "a test")
    assert journey.path == ["seeding.py", "arguments.py", "markup.py"]


def test_nothing_is_traced_afterwards():
    with tracing() as tracer:
        pass
    with tracer.journey() as journey:
        seeding.checked_seed(7, "a test")
    assert journey.path == []
