"""What a bench starts ends with it."""

import signal
import subprocess
import sys

from bench.served import tied
from tests.eventually import PATIENCE


def test_a_program_is_ended_when_the_bench_that_started_it_is_gone() -> None:
    program = tied("import time\nprint('runs', flush=True)\ntime.sleep(600)")
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"runs\n"
        process.stdin.close()  # as the kernel does for a process that was killed
        assert process.wait(PATIENCE) == -signal.SIGTERM
