"""Classes a user writes: what the decorators refuse, in one sentence."""

import pytest

import bothworlds as bw
from bothworlds.errors import InvalidParameter


class Policy:
    def start(self, n_arms):
        return [0.0]

    def choose(self, state, parameters, n_arms, t, generator):
        return 0

    def update(self, state, parameters, n_arms, t, arm, probability, loss):
        pass


class World:
    def loss(self, state, parameters, n_arms, t, arm, u):
        return 0.0

    def mean(self, state, parameters, n_arms, t, arm):
        return 0.0


@pytest.mark.parametrize(
    ("decorator", "cls", "name"),
    [(bw.policies.custom, Policy, "start"), (bw.environments.custom, World, "loss")],
)
def test_methods_with_self_are_refused(decorator, cls, name):
    with pytest.raises(InvalidParameter) as caught:
        decorator(cls)
    said = str(caught.value)
    assert said.startswith(f"The {name} of {cls.__name__} must be a function without self, got ")
