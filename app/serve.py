"""`seiretsu serve`, from start to exit code.

It prints `ready` on stdout, once, when it serves and its caches are read; before that `page` and its address, if there
is a page. It always stops in the same way: no more work
is accepted, calls in progress are answered, and a guard ends the process if anything does not stop. Exit codes: 0
stopped as asked, 1 something failed (the last line of the log has the reason), 2 wrong options or Configuration.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from functools import partial
from typing import NoReturn

import structlog
import uvloop

from api import configuration
from api.configuration import ConfigurationError, Loaded
from api.names import NAMESPACE
from app import allocator, collector, logs, setup, tls
from app.composition import Composition
from app.edits import ConfigurationFile
from app.internals import of_controller
from app.metrics import ClientCalls, ProcessMetrics
from app.page.served import Shown
from app.profile import Profile
from app.setup import Setup, SetupOptions
from certs.pki import CertificateError
from controller.forecasts.comparison import compared
from controller.kube import config as kubeconfig
from controller.kube.client import Client
from controller.kube.errors import ApiError
from controller.kube.flow.throttle import Throttle
from controller.run.controller import Controller
from core.feedback import catalog
from core.jobs import kinds
from operations.install import NotEstablishedError

log = structlog.get_logger("seiretsu")

GUARD_SECONDS = 1.5
"""The time after the shutdown after which the process is ended from outside the event loop."""

EXPECTED = (ApiError, CertificateError, NotEstablishedError, OSError)
"""External errors, which are logged as a sentence. Any other error is a bug and is logged with its traceback."""


def run(options: SetupOptions) -> int:
    """Serve until SIGTERM or SIGINT, and end the process; returns the exit code where it could not begin to serve."""
    repeats = logs.configure(options.log_level)
    try:
        text = _read(options)
        loaded = _loaded(text, options)
        _log_warnings(loaded, options)
        decided = setup.decide(options, loaded, os.environ)
        connection = kubeconfig.load(options.kubeconfig)
    except (ValueError, OSError, ConfigurationError, kubeconfig.ConfigError) as error:
        print(f"seiretsu serve: {error}", file=sys.stderr)
        return 2  # as for wrong options: a restart does not help
    # Threads hold the interpreter for half a millisecond, not five: webhooks answer while the scheduler thinks.
    sys.setswitchinterval(0.0005)
    collector.settle()
    allocator.settle()
    return uvloop.run(_serve(decided, connection, options, text, repeats))


def end(code: int) -> NoReturn:
    """Ends the process immediately, after flushing its output. The interpreter would first free every object: more than
    a minute for a heap of some gigabytes.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the reader of the pipe has ended
            stream.flush()
    os._exit(code)


def _read(options: SetupOptions) -> str:
    return options.config.read_text() if options.config else ""


def _loaded(text: str, options: SetupOptions) -> Loaded:
    return configuration.load(
        text,
        namespace=options.namespace or os.environ.get("POD_NAMESPACE") or NAMESPACE,
        frameworks=kinds.supported(),
        feedback_rules=catalog.NAMES,
        cluster_rules=catalog.OF_NO_NAMESPACE,
    )


def _error_in(text: str, options: SetupOptions) -> str:
    """Returns why a start with this Configuration would fail; empty if it would not."""
    try:
        setup.decide(options, _loaded(text, options), os.environ)
    except (ValueError, OSError, ConfigurationError) as error:
        return str(error)
    return ""


def _log_warnings(loaded: Loaded, options: SetupOptions) -> None:
    for warning in loaded.warnings:
        log.warning("In the Configuration", path=str(options.config), warning=warning)
    if options.config:
        log.info("Successfully loaded config file", path=str(options.config))
    _, ignored = tls.ciphers(loaded.configuration.tls.cipher_suites if loaded.configuration.tls else ())
    if ignored:
        log.warning("Ciphers without forward secrecy or unknown are not offered", ignored=ignored)


async def _serve(
    decided: Setup, connection: kubeconfig.Connection, options: SetupOptions, text: str, repeats: logs.Repeats
) -> int:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    loop.add_signal_handler(signal.SIGUSR1, logs.change_level, "debug")
    loop.add_signal_handler(signal.SIGUSR2, logs.change_level, options.log_level)
    profile = Profile(options.profile) if options.profile else None
    if profile is not None:
        profile.start()
    throttle = Throttle(decided.calls_per_second, decided.calls_at_once)
    # Certificates have their own client: every replica renews them, while only the leader may write as controller.
    async with Client(connection) as client, Client(connection, throttle=throttle) as fenced:
        metrics = ProcessMetrics()
        metrics.registry.register(ClientCalls(fenced.answers))
        controller = Controller(fenced, decided.controller, metrics.registry)
        metrics.sources.append(controller.gauges.families)
        metrics.sources.append(
            lambda: of_controller(
                fenced, controller.reflectors, controller.budget, controller.leading.is_set, controller.guard
            )
        )
        process = Composition(decided, client, controller, metrics, _shown(decided, controller))
        process.tasks.start("repeated warnings", logs.summarize(repeats))
        if options.config:
            edited = ConfigurationFile(options.config, text, lambda new: _error_in(new, options), process.report)
            process.tasks.start("edits of the Configuration", edited.run())
        code = await _until_stopped(process, asked)
        _guard(decided, code)
        stuck = await process.stop()
        if stuck:
            log.error("Tasks did not stop", tasks=stuck)
    if profile is not None:
        profile.stop()
    log.info("Stopped", code=code)
    end(code)


async def _until_stopped(process: Composition, asked: asyncio.Event) -> int:
    """Starts, prints `ready`, and waits for the first reason to stop; returns the exit code."""
    starting = asyncio.create_task(process.start())
    waiting = {asyncio.create_task(asked.wait()), asyncio.create_task(process.tasks.ended())}
    try:
        await asyncio.wait({starting, *waiting}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            if _failed(starting.exception()):
                return 1
            if process.page is not None:
                print(f"page {process.page.url}", flush=True)
            print("ready", flush=True)
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (starting, *waiting):
            task.cancel()
        await asyncio.wait({starting, *waiting})
    if asked.is_set():
        log.info("Asked to stop: answering the calls in flight")
        return 0
    ended = await process.tasks.ended()
    log.error("A task of this process ended: stopping", task=ended.name, error=str(ended), exc_info=ended.__cause__)
    return 1


def _shown(decided: Setup, controller: Controller) -> Shown | None:
    """Returns what the page shows; None if there is no page."""
    if decided.ui is None:
        return None
    if controller.forecasts is None:
        return Shown(controller.caches)
    learned = controller.forecasts.run_times
    return Shown(controller.caches, learned.run_time, partial(compared, learned=learned))


def _failed(error: BaseException | None) -> bool:
    if error is None:
        return False
    log.error("Could not start", error=str(error), exc_info=None if isinstance(error, EXPECTED) else error)
    return True


def _guard(decided: Setup, code: int) -> None:
    """End the process from a thread, should the event loop or a worker thread not let it end."""
    guard = threading.Timer(decided.farewell.total + GUARD_SECONDS, os._exit, args=(code,))
    guard.daemon = True
    guard.start()
