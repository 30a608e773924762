"""Which worker clusters a Workload is offered to (``status.nominatedClusterNames``), by the dispatcher of the
Configuration.
"""

from __future__ import annotations

from typing import Final

from api.names import DISPATCHER_ALL_AT_ONCE, DISPATCHER_INCREMENTAL
from core.multikueue.group import Group

ROUND_SECONDS: Final = 300.0
"""How long the incremental dispatcher waits for a reservation before it nominates more clusters."""


def nominated(group: Group) -> tuple[str, ...] | float | None:
    """Returns the names to write, the seconds until there will be more, or None if nothing is to do.

    All at once: every connected worker; one that is lost for a moment stays nominated. Incremental: the next few of the
    configured ones, connected or not, as in Kueue. Any other dispatcher is an external program that writes them.
    A group of an object of which others run goes where they are.
    """
    assert group.local is not None
    if group.place:
        return None if group.local.nominated == (group.place,) else (group.place,)
    before, policy = group.local.nominated, group.policy
    if policy.dispatcher == DISPATCHER_ALL_AT_ONCE:
        found = tuple(sorted(each.name for each in group.configured if each.connected or each.name in before))
        return found if set(found) != set(before) else None
    if policy.dispatcher != DISPATCHER_INCREMENTAL:
        return None
    left = [each.name for each in group.configured if each.name not in before]
    if not left:
        return None
    if before and group.round_began is not None and (wait := group.round_began + ROUND_SECONDS - group.now) > 0:
        return wait
    return (*before, *(left if policy.config_order else sorted(left))[: policy.step_size])
