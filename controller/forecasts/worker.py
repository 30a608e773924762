"""The process that makes forecasts: ``main``, started by ``controller.forecasts.forecasts``.

Its own process, because a thread that computes for long shares one interpreter lock with the event loop. It keeps the
workloads that it was sent, so that a question costs those that changed. It has no network, no files and no clock but
the one that limits its work.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import BinaryIO, Final, TypeVar

from api.objects import Key
from controller.forecasts.messages import (
    AT_ONCE,
    LENGTH,
    Answer,
    ArenasGone,
    Arrived,
    Compare,
    Compared,
    Ended,
    Named,
    Newcomers,
    Nodes,
    Question,
    RunTimesKnown,
    Starts,
    Workloads,
    decoded,
    encoded,
)
from core.forecast.arrivals import NOBODY, ArrivalRates, RecentArrivals
from core.forecast.edits import edited
from core.forecast.effects import effects, with_forecasts
from core.forecast.forecast import Forecast, forecast_in_steps
from core.forecast.learned import LearnedRunTimes
from core.forecast.newcomers import of_newcomers
from core.forecast.situation import Situation
from core.model import Node, Requests, Workload

Value = TypeVar("Value")
MOST_SECONDS: Final = 60.0
"""CPU time for one arena; then the best answer so far counts."""
NICENESS: Final = 10
"""So that admission calls come first: of a processor that both want in one container this process gets a tenth."""


class ForecastProcess:
    """Answers questions, one after the other."""

    def __init__(self, write: BinaryIO) -> None:
        self._write = write
        self._parent = os.getppid()
        self._run_times = LearnedRunTimes()
        self._arrived = RecentArrivals(0.0)
        self._workloads: dict[str, dict[Key, Workload]] = {}
        self._nodes: dict[str, Node] = {}
        self._others: dict[str, Requests] = {}
        self._new: list[Workload] = []
        self._named = Named([], [])

    def take(self, message: object) -> None:
        """Handles one message."""
        match message:
            case RunTimesKnown(run_times, since):
                self._run_times = LearnedRunTimes.decode(run_times)
                self._arrived = RecentArrivals(since)
            case Arrived(workloads):
                for each in workloads:
                    self._arrived.add(each)
            case ArenasGone(arenas):
                for name in arenas:
                    self._workloads.pop(name, None)
            case Workloads(workloads):
                self._new += workloads
            case Named(waiting, holding):
                self._named.waiting += waiting
                self._named.holding += holding
            case Nodes(nodes):
                for name, node, others in nodes:
                    _put(self._nodes, name, node)
                    _put(self._others, name, others)
            case Ended(ran):
                for workload, seconds in ran:
                    self._run_times.add(workload, seconds)
            case Question():
                self._answer(message)
            case Compare():
                self._compare(message)

    def _complete(self, about: Situation, *, placed: bool) -> Situation:
        """Returns a situation with the workloads that were named, and if they are placed, with the nodes."""
        known = self._workloads.get(about.arena, {}) | {each.key: each for each in self._new}
        named, self._new, self._named = self._named, [], Named([], [])
        waiting, holding = (tuple(known[key] for key in keys) for keys in (named.waiting, named.holding))
        self._workloads[about.arena] = {each.key: each for each in (*waiting, *holding)}
        about = replace(about, waiting=waiting, holding=holding)
        return replace(about, nodes=self._nodes, others=self._others) if placed else about

    def _compare(self, question: Compare) -> None:
        before = self._complete(question.about, placed=True)
        after = edited(before, question.edit)
        found = effects(before, after)
        self.send(Compared(found))
        was, then = (self._starts(about, question, question.seconds / 2) for about in (before, after))
        pair = comparable(was, then)
        if pair is not None:
            found = with_forecasts(found, [pair[0]], [pair[1]])
        self.send(Compared(found, starts=pair is not None, last=True))

    def _starts(self, about: Situation, question: Compare, seconds: float) -> dict[int, Forecast]:
        """Returns the answers that there are in so many seconds, by the number of their runs."""
        found: dict[int, Forecast] = {}
        ends = time.process_time() + seconds
        for step in forecast_in_steps(about, self._run_times.run_time, question.seed) if seconds else ():
            if step is not None:
                gc.collect()
                found[step.runs] = step
            if time.process_time() > ends:
                break
        return found

    def _answer(self, question: Question) -> None:
        arena, about = question.about.arena, self._complete(question.about, placed=question.placed)
        waiting = about.waiting
        began = time.process_time()
        rates = self._arrived.rates(about.local_queues, about.now) if question.arrivals else NOBODY
        found: Forecast | None = None
        asked = forecast_in_steps(about, self._run_times.run_time, question.seed, rates=rates)
        for step in asked if waiting else ():
            if step is not None:
                gc.collect()  # the runs so far: their States are large
                if found is None or step.final:
                    self._report(step, began)
                found = step
                if question.quick:
                    break
            if time.process_time() - began > MOST_SECONDS or os.getppid() != self._parent:
                break
        if found is not None and not found.final and not question.quick:
            self._report(found, began)
        if not question.quick:
            self._newcomers(about, question.seed, rates, began)
        gc.collect()
        self.send(Answer(arena, about.now, final=True, last=True, runs=0, seconds=time.process_time() - began))

    def _report(self, found: Forecast, began: float) -> None:
        starts = iter(found.starts.values())
        while part := list(islice(starts, AT_ONCE)):
            self.send(Starts(part))
        spent = time.process_time() - began
        self.send(Answer(found.arena, found.at, final=found.final, last=False, runs=found.runs, seconds=spent))

    def _newcomers(self, about: Situation, seed: int, rates: ArrivalRates, began: float) -> None:
        for step in of_newcomers(about, self._run_times.run_time, seed, rates):
            if step:
                self.send(Newcomers(step))
            if time.process_time() - began > 2 * MOST_SECONDS:
                break

    def send(self, message: object) -> None:
        """Writes one message."""
        for part in encoded(message):
            self._write.write(part)
        self._write.flush()


def comparable(was: Mapping[int, Forecast], then: Mapping[int, Forecast]) -> tuple[Forecast, Forecast] | None:
    """Returns the best answers about two situations that chance does not tell apart, given by the number of their runs:
    those of equally many runs. One that is final after one run is the same after any number. None if there are none.
    """
    last = [found[max(found)] for found in (was, then) if found]
    if len(last) == 2 and any(each.final and each.runs == 1 for each in last):
        return last[0], last[1]
    equal = max(was.keys() & then.keys(), default=0)
    return (was[equal], then[equal]) if equal else None


def _put(there: dict[str, Value], name: str, value: Value | None) -> None:
    if value is None:
        there.pop(name, None)
    else:
        there[name] = value


def main() -> int:
    """Answers until the pipe is closed: the controller has ended, however it did."""
    os.nice(NICENESS)
    gc.disable()  # a run is thrown away as a whole; ``ForecastProcess`` collects between runs
    read, worker = sys.stdin.buffer, ForecastProcess(sys.stdout.buffer)
    try:
        while len(head := read.read(LENGTH.size)) == LENGTH.size:
            (length,) = LENGTH.unpack(head)
            worker.take(decoded(read.read(length)))
    except (BrokenPipeError, EOFError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is buffered cannot be written either
    return 0
