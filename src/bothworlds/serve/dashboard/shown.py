"""An experiment on a page: its state at one moment, the leading arm and the alarms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bothworlds.bandit.standing import Standing
from bothworlds.plotting.palette import SHOWN
from bothworlds.serve.dashboard.reading import CONFIDENCE, ChartHistory, Facts, Window
from bothworlds.text import clipped, counted, short_duration

OTHERS = f"s{SHOWN}"
"""Colour of the arms that are too many for colours of their own."""


@dataclass(frozen=True)
class Shown:
    """State of an experiment at one moment."""

    described: dict[str, Any]
    window: Window | None
    history: ChartHistory | None
    facts: Facts | None
    chosen: str | None = None
    """Unit that the reader chose, reward or loss; None follows the feedback."""
    page: int = 1
    limit: float = 10.0
    """Age of the other replicas' states at which the service is not ready."""
    acted: bool = False
    """Whether an action was just refused: the controls are then open."""
    segments: tuple[dict[str, Any], ...] = ()
    """Those with the most feedback, as `Service.segments` describes them."""

    @property
    def rewards(self) -> bool:
        """Whether rewards are counted: the reader's choice, or the unit of the feedback."""
        if self.chosen is None:
            return self.facts is not None and self.facts.rewarded
        return self.chosen == "reward"

    @property
    def word(self) -> str:
        """The unit: reward or loss."""
        return "reward" if self.rewards else "loss"

    def value(self, loss: float) -> float:
        """Return a loss in the displayed unit."""
        low, high = self.described["bounds"]
        return low + high - loss if self.rewards else loss

    def pair(self, ends: tuple[float, float] | None) -> tuple[float, float] | None:
        """Return the ends of an interval of losses in the displayed unit, the smaller first."""
        if ends is None:
            return None
        low, high = sorted(map(self.value, ends))
        return low, high

    def standing(self) -> Standing | None:
        """Return how good the experts are by the recent decisions."""
        if self.window is None or self.window.experts is None:
            return None
        low, high = self.described["bounds"]
        weights = {each["name"]: each["weight"] for each in self.described["experts"]}
        return self.window.experts.standing(weights, (low, high), self.rewards, CONFIDENCE)


def colours(described: dict[str, Any]) -> dict[str, str]:
    """Return the class of colour of every arm: those played most have one of their own."""
    arms = described["arms"]
    most = sorted(range(len(arms)), key=lambda n: (-arms[n]["decided"], n))[:SHOWN]
    own = {arms[n]["name"]: f"s{place}" for place, n in enumerate(sorted(most))}
    return {arm["name"]: own.get(arm["name"], OTHERS) for arm in arms}


def leader(described: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arm that gets most decisions, None where none does."""
    active = [arm for arm in described["arms"] if arm["status"] == "active"]
    best: dict[str, Any] = max(active, key=lambda arm: arm["probability"])
    return best if best["probability"] > 1.5 / len(active) else None


def alarms(shown: Shown) -> list[tuple[str, str]]:
    """Return the alarms, each with the section that explains it."""
    described = shown.described
    found = [(said, "arms") for said in described["alarms"]]
    held = 0 if shown.facts is None else sum(shown.facts.quarantined.values())
    if held:
        found.append((f"{counted(held, 'answer')} in quarantine.", "quarantine"))
    if described["state_age"] > shown.limit:
        age = short_duration(described["state_age"])
        found.append((f"The counts of the other replicas are {age} old here.", "replicas"))
    for name, said in drifts(shown):
        found.append((f"Arm {clipped(name, 40)!r}: {said}", "drift"))
    return found


def drifts(shown: Shown) -> list[tuple[str, str]]:
    """Return the arms whose mean has moved, with the evidence."""
    window = shown.window
    # The mean over all time is that of the contexts in which experts recommend the arm.
    if window is None or window.report is None or window.experts is not None:
        return []
    ever = {arm["name"]: arm for arm in shown.described["arms"]}
    found = []
    for name, each in window.report.items():
        arm = ever.get(str(name))
        if arm is None or arm["mean_loss"] is None or each.mean is None:
            continue
        ends = window.strict[str(name)]
        if ends is None:
            found.append((str(name), "its mean has changed within the recent decisions."))
        # The average of the window itself would always agree.
        elif arm["told"] > 2 * each.told and not ends[0] <= arm["mean_loss"] <= ends[1]:
            now, then = shown.value(each.mean), shown.value(arm["mean_loss"])
            found.append(
                (str(name), f"mean {shown.word} {now:.3g} recently, {then:.3g} over all time.")
            )
    return found


ACTED = {
    "level": "the policy restarted and kept part of what it knew",
    "side": "the policy tested this arm again from the start",
}
"""Reaction of a policy to an alarm, by its kind."""


def acted_on(shown: Shown) -> list[tuple[str, str]]:
    """Return the changes on which the policy has acted: whose losses, and its reaction."""
    found = []
    for each in shown.described["policy_alarms"]:
        if each["kind"] == "restart":
            said = f"the losses of an arm changed; it restarted in round {each['round']:,}."
            found.append(("Policy", said))
            continue
        before, after = shown.value(each["before"]), shown.value(each["after"])
        found.append(
            (
                each["arm"],
                f"mean {shown.word} {before:.3g} before, {after:.3g} after a change detected in "
                f"round {each['round']:,}; {ACTED[each['kind']]}.",
            )
        )
    return found
