"""The figures of flow control. docs/flow.md has what each of them does with half of its value, as it is, and with twice
as much, measured by ``bench.flow`` on a model of an API server; a measurement on a real one is here. ``bench.figures``
measures with an eighth and with eight times as much (docs/flow-measured.md): no effect means that the results differ no
more than those of equal runs, so that the value is not critical under that load, not that it is the best.

Writes in flight are limited first by what they are for: what cycles decided has ``DECIDED_WRITES`` of them, what can
wait ``DEFERRED_AT_ONCE`` (reasons why workloads wait ``REASONS_AT_ONCE`` of these), and each reconciler its workers.
While admission calls arrive, all together have ``FEWEST`` to ``MOST``. Each call passes the throttle last.

All were measured with API server, etcd, clients and ``serve`` on two processors. ``bench.contention``: 90 clients
create Workloads as fast as they can; ``bench.latency``: Jobs at a fixed rate, from create to unsuspend;
docs/performance.md has the tables.
"""

# Decisions: how far cycles run ahead of their writes.

DECIDED_WRITES = 30
"""The writes of decisions in flight while no admission calls arrive. ``bench.figures``, an API server that is 50 ms
away in each direction: with 4 it admitted 30 workloads a second, with 30 and with 240 fifty.
"""
UNWRITTEN = 4
"""The next cycle begins when no more decisions than this wait for their write. At a busy API server a decision made
earlier would only be older when it is written: workloads of higher priority that arrive meanwhile would have to preempt
it, and a victim may have finished. ``bench.contention``, 900 workloads: without a limit 213 evictions and 129 refused
writes, with it 35 and 37.
"""
CONTENDED_SECONDS = 1.0
"""While workloads wait for quota, the next cycle begins when all decisions are written: what arrives meanwhile is
decided together with what becomes free, in the order of priority, and need not preempt. A write that is not answered
within this time delays no cycle any longer. ``bench.figures``: no effect.
"""

# Throttle: every call.

SLOWEST_SHARE = 1 / 64
"""Never slower than this share of the configured rate: a server that is always busy is still asked, 5 times a second by
the default of 300. The way back to the whole rate takes half a minute then. ``bench.figures``, an API server that
refuses: with 1/8 two workloads a second were admitted, with 1/64 and with 1/512 about twenty; it asks for longer pauses
the more it has to refuse.
"""
SPARE_SHARE = 0.5
"""Events are sent while more than this share of the burst is unused. The rest is for a burst of writes after them.
``bench.figures``: no effect on how many Jobs start and finish.
"""
HALVED_ONCE_SECONDS = 1.0
"""One storm of 429 halves the rate once in this time: its answers arrive within it. ``bench.figures``, an API server
that refuses: with 8 s six workloads a second were admitted, with 1 s 18 to 28, with 0.125 s 29.
"""
CLIMB = 0.125
"""What a call that passes adds to the rate. So the rate climbs by an eighth of itself in a second and doubles in six,
whatever it is. ``bench.figures``, an API server that refuses: with 1, seven workloads a second were admitted, with 1/8
and with 1/64 about twenty.
"""

# Precedence: writes while admission calls arrive.

FEWEST, MOST = 4, 12
"""The least and the greatest number of writes in flight while admission calls arrive. ``bench.contention``: two
admitted 31 to 43 workloads a second, eight 43 to 53, sixteen and thirty no more, and creates took twice as long.
``bench.webhook``: with eight the p99 of admission calls was 49 ms while 1,200 workloads were scheduled, with four 17.
"""
DELAYS = 1200.0
"""The number of writes in flight is this, divided by the calls a second: 12 up to 100 calls a second, 4 from 300 on.
``bench.latency`` at 30 Jobs a second on a machine where a write takes 77 ms: with four in flight Jobs waited 6.3 s in
the median, without a limit 0.22 s; the four protect callers at 300 calls a second.
"""
LONGEST_WAIT_SECONDS = 1.0
"""When a write has waited for so long, one begins even if earlier ones are not answered: the one whose turn it is.
After twice this time it is one without ``first``, if this write is. ``bench.figures``: no effect.
"""
QUIET_SECONDS = 1.0
"""When no call has arrived for this time, writes are made immediately. It is longer than the pauses of a client that
creates job after job. ``bench.figures``: with 8 s a quarter fewer events were sent; no other effect.
"""
RATE_SECONDS = 0.5
"""The time over which calls are counted: half of the rate is forgotten in two thirds of it. ``bench.figures``: no
effect.
"""

# Pressure: how busy the API server is.

SMOOTHING = 0.1
"""The least share of the newest write in an average: ten writes make up two thirds of it. ``bench.figures``: no effect.
"""
SHORTEST_IDLE_SECONDS = 1e-4
"""No write is taken to be faster than this: it only prevents a division by zero, and no API server is as fast."""
REFUSED_SLOWDOWN = 50.0
"""An answer 429 counts as a write that was so many times slower than usual: one alone raises the slowdown to 6 and the
interval to 72 ms, a second one the interval to its longest. ``bench.figures``: no effect.
"""
RECOVERY_SECONDS = 0.25
"""Without writes, half of the slowdown is forgotten in this time. A process that writes little would else believe an
old latency. ``bench.figures``: no effect.
"""
IDLE_WINDOW_SECONDS = 300.0
"""The idle latency is the lowest average of this window and the one before: five to ten minutes."""
HIGHEST_IDLE_SECONDS = 0.02
"""A process that starts while the API server is busy has not seen it idle: it assumes no higher latency than this.
``bench.figures``: no effect.
"""

# Budget: writes that can wait.

UNIT_SECONDS = 0.0025
"""The interval is this, times slowdown, times slowdown - 1: 5 ms at 2, 50 ms at 5, 0.3 s at 12. ``bench.contention``:
0.9 queue statuses a workload became 0.12, and 2.6 writes in all 1.3.
"""
DEFERRED_AT_ONCE = 4
"""Deferrable writes in flight: as many as all writes have at a busy moment (``FEWEST``). ``bench.figures``, an API
server that is 50 ms away in each direction: with 1 the counts of thirty queues were right 2.6 s after the last
workload, with 4 after 1.2 to 1.4 s.
"""
REASONS_AT_ONCE = 4
"""Reasons why workloads wait that are compared and written at the same time. ``bench.figures``: no effect."""
BUSY_SECONDS = 0.05
"""At this interval the API server is busy, and writes with ``soon`` begin at least as often: sixteen recorded scenarios
in parallel waited for the condition ``Active`` of new LocalQueues at five writes a second.
"""
IN_A_ROW = 3
"""Turns in a row of lanes that come first, while others wait: these get a quarter of the turns."""
MANY_CALLS = 80.0
"""While more admission calls a second arrive (two for each Job), writes that can wait are rare. With fewer calls, the
latency of writes alone says how busy the API server is: with a limit at the first call, fourteen recorded scenarios in
parallel found half of the statuses late.
"""
CROWDED_SECONDS = 0.1
"""The least interval while many admission calls arrive. ``bench.contention --load jobs``: one of four changes after
which 35 Jobs a second were admitted (docs/performance.md).
"""
URGENT_SECONDS = 1.0
"""The interval while admissions wait to be written. ``bench.contention``: without a limit 3.6 statuses for a finished
workload were most of the API server's load.
"""
GIVE_WAY_SECONDS = 0.1
"""How long each event waits while admission calls arrive, before it is queued among the writes. ``bench.figures``: no
effect on how many Jobs start and finish.
"""
LONGEST_SECONDS = 0.2
"""The longest interval while no admission waits, however slow the API server is: with one write a second the counts of
thirty queues came half a minute late, and five cost it little. ``bench.figures``: no effect while admissions wait.
"""
