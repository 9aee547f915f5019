"""Old spellings keep working for one version, and say so."""

import warnings

import pytest

from bothworlds import deprecated


@deprecated.keyword_only(since="0.2", removed_in="0.3")
def shown(first, second=2, *, third=3, fourth=4):
    return first, second, third, fourth


class Thing:
    @deprecated.renamed({"colour": "color"}, since="0.2", removed_in="0.3")
    def __init__(self, color="blue"):
        self.color = color


def test_the_new_spelling_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert shown(1, third=5) == (1, 2, 5, 4)
        assert Thing(color="red").color == "red"
        assert Thing("green").color == "green"


def test_arguments_by_place_arrive_and_the_warning_names_the_caller():
    with pytest.warns(DeprecationWarning, match="The third, fourth of shown by position") as caught:
        assert shown(1, 2, 5, 6) == (1, 2, 5, 6)
    assert caught[0].filename == __file__


def test_a_renamed_argument_arrives_under_its_new_name():
    with pytest.warns(DeprecationWarning, match="The colour of Thing is deprecated") as caught:
        assert Thing(colour="red").color == "red"
    assert caught[0].filename == __file__


def test_too_many_or_doubled_arguments_are_errors():
    with pytest.raises(TypeError, match="positional"):
        shown(1, 2, 3, 4, 5)
    with pytest.raises(TypeError, match="multiple values for argument 'third'"):
        shown(1, 2, 3, third=3)
    with pytest.raises(TypeError, match="both color and its old name colour"):
        Thing(color="red", colour="red")
