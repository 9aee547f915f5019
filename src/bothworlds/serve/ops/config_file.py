"""Configuration file: options of the service and its experiments, to be reviewed in git.

``[service]`` has the options of ``bothworlds serve`` under their names, with ``${NAME}`` for
secrets of the environment. ``[experiments.NAME]`` has the fields of
`bothworlds.serve.domain.config.NewExperiment`: a setting that is added there can be used here.
``[tenants.TENANT.experiments.NAME]`` has those of another tenant than the first.
A file states all settings of the experiments that it names; experiments that it does not name are
left alone, and so are modes, such as a pin.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from bothworlds.errors import InvalidParameter
from bothworlds.serve.domain.answers import Principal
from bothworlds.serve.domain.config import CHANGEABLE, Arm, Config, NewExperiment, checked
from bothworlds.serve.domain.experiment import Experiment
from bothworlds.serve.domain.records import MOST_ARMS
from bothworlds.serve.domain.rules import check_name, explained
from bothworlds.serve.domain.service import Service
from bothworlds.serve.problems import Problem

_REQUEST = "config file"
"""Entry of the audit log in place of the id of a request."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PASSWORD = re.compile(r"\w+://[^/@]*:(?!\$\{)[^/@]*@|[?&]password=(?!\$\{)")


class Tenant(msgspec.Struct, forbid_unknown_fields=True):
    """A tenant in a configuration file.

    Parameters
    ----------
    experiments : dict of str to dict
        The fields of each experiment, by its name.
    """

    experiments: dict[str, dict[str, Any]] = {}


class ConfigFile(msgspec.Struct, forbid_unknown_fields=True):
    """A configuration file.

    Parameters
    ----------
    service : dict of str to object
        Options of ``bothworlds serve`` by name, with ``_`` for ``-``.
    experiments : dict of str to dict
        The fields of each experiment of the first tenant, by its name.
    tenants : dict of str to Tenant
        The other tenants, by name.
    """

    service: dict[str, Any] = {}
    experiments: dict[str, dict[str, Any]] = {}
    tenants: dict[str, Tenant] = {}

    def specs(self, tenant: str | None = None) -> list[NewExperiment]:
        """Return the experiments of a tenant, by default the first.

        Raises
        ------
        InvalidParameter
            If one has an unknown field, or a value of the wrong kind.
        """
        found = []
        tables = self.experiments if tenant is None else self.tenants[tenant].experiments
        for name, table in tables.items():
            try:
                found.append(msgspec.convert({**table, "name": name}, NewExperiment))
            except msgspec.ValidationError as error:
                raise InvalidParameter(
                    f"The experiment {name!r} of the configuration file is not valid: "
                    f"{explained(error)}."
                ) from None
        return found


def read(path: str) -> ConfigFile:
    """Read a configuration file.

    Raises
    ------
    InvalidParameter
        If it is not TOML, has other tables, names a variable that is not set, or has a password.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "bothworlds.toml")
    ...     _ = Path(path).write_text('experiments.headline.arms = ["blue", "green"]')
    ...     read(path).specs()[0].arms
    ['blue', 'green']
    """
    try:
        found = msgspec.convert(tomllib.loads(Path(path).read_text(encoding="utf-8")), ConfigFile)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise InvalidParameter(f"The configuration file {path} is not valid: {error}.") from None
    if _PASSWORD.search(str(found.service.get("store", ""))):
        raise InvalidParameter(
            f"The configuration file {path} must not have a password: use PGPASSWORD, or "
            "${NAME} for a variable of the environment."
        )
    found.service = {name: _with_variables(value) for name, value in found.service.items()}
    return found


def _with_variables(value: Any) -> Any:
    """Return a value with variables of the environment in place of their names."""
    if isinstance(value, list):
        return [_with_variables(each) for each in value]
    if not isinstance(value, str):
        return value

    def found(name: re.Match[str]) -> str:
        if name[1] not in os.environ:
            raise InvalidParameter(
                f"The configuration file needs the environment variable {name[1]}, which is not "
                "set."
            )
        return os.environ[name[1]]

    return _VARIABLE.sub(found, value)


@dataclass(frozen=True)
class Step:
    """One step towards the state that a configuration file describes.

    Parameters
    ----------
    text : str
        Description of the change, as `plan` prints it.
    apply : coroutine function
        Makes the change.
    """

    text: str
    apply: Callable[[], Coroutine[Any, Any, Any]]


async def plan(service: Service, file: ConfigFile, *, only_new: bool = False) -> list[Step]:
    """Return the changes that make a store match a configuration file.

    Parameters
    ----------
    service : Service
        Open on the store.
    file : ConfigFile
        What is wanted.
    only_new : bool
        Whether to leave alone what the store has already.

    Raises
    ------
    Problem
        If a change would lose something, or an experiment is not valid; nothing is changed.
    """
    steps: list[Step] = []
    for tenant in (None, *file.tenants):
        who = _author(service, tenant)
        if who is None:
            assert tenant is not None
            check_name(tenant, "tenant")
            create = partial(
                service.create_tenant, replace(Service.LOCAL, request_id=_REQUEST), tenant
            )
            steps.append(Step(f"create the tenant {tenant}", create))
        known = [] if who is None else service.names(who)
        for spec in file.specs(tenant):
            config, arms = checked(spec)
            if who is None or spec.name not in known:
                named = ", ".join(arm.name for arm in arms)
                text = f"{spec.name}: create with the arms {named}"
                found = [Step(text, partial(_create, service, tenant, spec))]
            else:
                found = [] if only_new else await _changes(service, who, config, arms, spec.name)
            steps += [
                Step(each.text if tenant is None else f"{tenant}: {each.text}", each.apply)
                for each in found
            ]
    return steps


async def _create(service: Service, tenant: str | None, spec: NewExperiment) -> None:
    """Create an experiment of a tenant that there is by now."""
    who = _author(service, tenant)
    assert who is not None
    await service.create(who, spec)


def _author(service: Service, tenant: str | None) -> Principal | None:
    """Return the local administrator of a tenant, as the author of changes by a file."""
    who = service.tenant(tenant)
    return None if who is None else replace(who, request_id=_REQUEST)


async def _changes(
    service: Service, who: Principal, config: Config, arms: Sequence[Arm], name: str
) -> list[Step]:
    """Return the changes of an experiment that there is."""
    experiment = service.experiment_state(who, name)
    steps = []
    before, after = experiment.config.document(), config.document()
    if experiment.config.learner == config.learner:
        after["policy"] = before["policy"]
    changed = {key: value for key, value in after.items() if value != before[key]}
    for key in changed:
        if key not in CHANGEABLE:
            raise _refusal(name, f"the setting {key!r} is fixed; give the new one another name")
    stored = {arm.name: arm for arm in experiment.arms}
    for arm in arms:
        known = stored.get(arm.name)
        if known is None:
            add = partial(service.add_arm, who, name, arm)
            steps.append(Step(f"{name}: add the arm {arm.name}", add))
        elif known.status != "active":
            raise _refusal(name, f"the arm {arm.name!r} is retired, and its name stays taken")
        elif known.value != arm.value:
            raise _refusal(name, f"the value of {arm.name!r} is fixed; add an arm of another name")
    if len({*stored, *(arm.name for arm in arms)}) > MOST_ARMS:
        raise _refusal(name, f"it would have more than {MOST_ARMS} arms, retired ones included")
    # Shares may name arms that are new, and not name those that go.
    if changed:
        told = ", ".join(f"{key} {before[key]!r} -> {value!r}" for key, value in changed.items())
        patch = partial(_patch, service, who, name, changed)
        steps.append(Step(f"{name}: change {told}", patch))
    kept = {arm.name for arm in arms}
    gone = [each for each in stored if stored[each].status == "active" and each not in kept]
    for each in gone:
        if stored[each].place == experiment.pinned:
            raise _refusal(name, f"the arm {each!r} is pinned; resume the experiment first")
        retire = partial(service.retire_arm, who, name, each)
        steps.append(Step(f"{name}: retire the arm {each}", retire))
    if gone:
        await _check_awaited(service, who, experiment, gone)
    return steps


async def _patch(service: Service, who: Principal, name: str, changes: dict[str, Any]) -> None:
    """Change settings of an experiment, as it is by now."""
    version = service.experiment_state(who, name).version
    await service.patch(who, name, changes, if_match=version)


async def _check_awaited(
    service: Service, who: Principal, experiment: Experiment, arms: Sequence[str]
) -> None:
    """Refuse to retire an arm while decisions for it wait for their feedback."""
    since = service.state.now() - experiment.config.feedback_window
    async for rows in service.rows(who, experiment.name, since=since):
        for row in rows:
            if row["arm"] in arms and row["status"] is None and row["epoch"] == experiment.epoch:
                raise _refusal(
                    experiment.name,
                    f"decisions for the arm {row['arm']!r} still wait for their feedback",
                )


def _refusal(name: str, why: str) -> Problem:
    return Problem(
        "mode_conflict", f"The experiment {name!r} cannot become what the file states: {why}."
    )
