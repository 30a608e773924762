"""Which devices of the cluster a selector matches, remembered until their slice changes.

Separate because this is the only part that takes time: ten thousand devices take 30 ms for a selector, so all that
evaluates selectors is in steps of less than a millisecond.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from api.device_selector import DeviceSelector, SelectorError, compiled
from core.devices.model import Device, Slice
from core.steps import Steps

AT_ONCE = 1000
"""Steps of evaluations before others may run: half a millisecond. A device whose result is known counts as one, and
each evaluation as two more than its steps.
"""
MOST_REMEMBERED = 64
"""Selectors for which the results of a slice are kept."""

MatchResult: TypeAlias = bool | str
"""Whether a device matches; a text if that cannot be evaluated."""


class Matching:
    """Results by slice and expression."""

    def __init__(self) -> None:
        self._results: dict[str, tuple[Slice, dict[str, list[MatchResult]]]] = {}

    def forget(self, name: str) -> None:
        """A slice changed."""
        self._results.pop(name, None)

    def results(self, slices: Iterable[Slice], expressions: Iterable[str]) -> Steps[list[MatchResult]]:
        """Returns for each device of these slices, in order, whether all expressions are true; the first that is not
        decides.
        """
        found: list[MatchResult] = []
        expressions = tuple(filter(None, expressions))
        spent = [0]
        for each in slices:
            spent[0] += len(each.devices)
            yield from _pause(spent)
            lists = []
            for expression in expressions:
                lists.append((yield from self._of(each, expression, spent)))
            for place in range(len(each.devices)):
                found.append(next((known[place] for known in lists if known[place] is not True), True))
        return found

    def _of(self, of: Slice, expression: str, spent: list[int]) -> Steps[list[MatchResult]]:
        known = self._results.get(of.name)
        if known is None or known[0] is not of:
            known = self._results[of.name] = of, {}
        if expression not in known[1]:
            if len(known[1]) >= MOST_REMEMBERED:
                known[1].clear()
            known[1][expression] = yield from _evaluated(of.devices, expression, spent)
        return known[1][expression]


def _pause(spent: list[int]) -> Steps[None]:
    if spent[0] >= AT_ONCE:
        spent[0] = 0
        yield


def _evaluated(devices: Iterable[Device], expression: str, spent: list[int]) -> Steps[list[MatchResult]]:
    selector = compiled(expression)
    found: list[MatchResult] = []
    for device in devices:
        found.append(_result(selector, device, spent))
        spent[0] += 2
        yield from _pause(spent)
    return found


def _result(selector: DeviceSelector | str, device: Device, spent: list[int]) -> MatchResult:
    if isinstance(selector, str):
        return selector
    try:
        return selector.matches(device.variables, spent)
    except SelectorError as error:
        return str(error)


def pools(slices: Iterable[Slice], driver: str) -> list[list[Slice]]:
    """Returns the complete pools of a driver by name, each with the slices of its newest generation."""
    found = newest(each for each in slices if each.driver == driver)
    return [pool for _, pool in sorted(found.items()) if len(pool) == pool[0].slices]


def newest(slices: Iterable[Slice]) -> dict[tuple[str, str], list[Slice]]:
    """Returns the slices of the newest generation of each pool, by driver and name."""
    found: dict[tuple[str, str], list[Slice]] = {}
    for each in slices:
        pool = found.setdefault((each.driver, each.pool), [])
        if pool and each.generation > pool[0].generation:
            pool.clear()
        if not pool or each.generation == pool[0].generation:
            pool.append(each)
    return found
