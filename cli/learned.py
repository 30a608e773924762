"""How long the Workloads of a live cluster run, for what simulates it: the same learned run times as those of the
controller's forecast, as far as the user may read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from api.names import Condition
from api.objects import Key
from api.resources import CONFIG_MAPS
from cli.reader import Reader
from cli.target import reached
from controller.kube.config import Connection
from controller.kube.errors import ApiError, Forbidden
from core.forecast.learned import LearnedRunTimes, ran
from core.forecast.run_times import RunTime, RunTimes, either
from core.forecast.stored import NAME, learned_of
from core.model import Workload

TimesOf = Callable[[Iterable[Workload]], RunTimes]
"""Returns how much longer the Workloads of a cluster run; its argument are all of them, the finished ones included."""


class Remembered(NamedTuple):
    """What the controller remembers in its ConfigMap; ``unseen`` says why there is nothing."""

    learned: LearnedRunTimes
    unseen: str = ""

    def run_times(self, workloads: Iterable[Workload] = ()) -> RunTimes:
        """Returns what the controller has learned; of what it does not know, what these Workloads teach."""
        return either(self.learned.run_time, learned(workloads).run_time)


NOTHING = Remembered(LearnedRunTimes())


def remembered(here: Connection, namespace: str) -> Remembered:
    """Reads the ConfigMap in the namespace of Seiretsu. Raises UnreadableError if the API server does not answer."""
    key = Key(namespace, NAME)
    with Reader(here) as reader, reached(here.server):
        try:
            return Remembered(learned_of(reader.get(CONFIG_MAPS.path(namespace, NAME))))
        except Forbidden:
            why = f"you may not read ConfigMap {key}"
        except ApiError as error:
            if error.status != 404:
                raise
            why = f"there is no ConfigMap {key}"
        except ValueError:
            why = f"ConfigMap {key} cannot be read"
    return Remembered(LearnedRunTimes(), why)


def learned(workloads: Iterable[Workload]) -> LearnedRunTimes:
    """Returns how long those ran that have finished."""
    found = LearnedRunTimes()
    for workload in workloads:
        seconds = ran(workload) if workload.holds(Condition.FINISHED) else None
        if seconds is not None:
            found.add(workload, seconds)
    return found


def assumption(rests: Iterable[RunTime]) -> str:
    """Returns how long the Workloads of a cluster are taken to run, as a clause; '' if there are none."""
    sources = Counter(each.rests_on for each in rests)
    unknown = sources.pop("", 0)
    known = [f"the median of {source} ({_workloads(count)})" for source, count in sources.most_common()]
    blind = f"nothing is known of {_workloads(unknown)}, which {'run' if unknown > 1 else 'runs'} without end here"
    parts = [*known, *([f"{blind}: --run-for sets how long"] if unknown else [])]
    return f"run times: {', '.join(parts)}" if parts else ""


def _workloads(count: int) -> str:
    return f"{count} workload{'s' if count > 1 else ''}"
