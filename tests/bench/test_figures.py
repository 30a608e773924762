import ast
import asyncio
import json
import re
from pathlib import Path

import pytest

from bench import figures
from bench.far import far
from bench.figures import AS_IT_IS, MEASURED, NOT_HERE, Run, changed, left, planned, results, stands_out
from bench.load import LOADS
from controller.kube.flow import limits

PAGE = Path(__file__).parents[2] / "docs" / "flow-measured.md"


def documented() -> dict[str, str]:
    """The text below each figure of ``limits``."""
    found: dict[str, str] = {}
    names: list[str] = []
    for statement in ast.parse(Path(limits.__file__).read_text()).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]):
                names = [name]
            case ast.Assign(targets=[ast.Tuple(elts=several)]):
                names = [each.id for each in several if isinstance(each, ast.Name)]
            case ast.Expr(value=ast.Constant(value=str(text))):
                found |= dict.fromkeys(names, text)
    return found


def test_each_figure_of_flow_control_has_its_measurement_on_a_real_server_or_a_reason() -> None:
    every = {name for name, value in vars(limits).items() if name.isupper() and isinstance(value, int | float)}
    assert documented().keys() == every
    measured = re.compile(r"``bench\.(?!flow\b)\w+|recorded\s+scenarios\s+in\s+parallel")
    without = {name for name, text in documented().items() if not measured.search(text)}
    assert without == NOT_HERE.keys()
    assert {name for name, text in documented().items() if "``bench.figures``" in text} == set(MEASURED)


@pytest.mark.parametrize("figure", MEASURED)
def test_the_page_has_the_value_of_each_figure(figure: str) -> None:
    assert f"| `{figure}` {getattr(limits, figure):.4g} |" in PAGE.read_text()


def test_a_count_is_at_least_one_and_a_share_at_most_one() -> None:
    assert (changed("UNWRITTEN", 0.125), changed("UNWRITTEN", 8.0)) == (1, 32)
    assert (changed("SPARE_SHARE", 0.125), changed("SPARE_SHARE", 8.0)) == (0.0625, 1.0)
    assert changed("QUIET_SECONDS", 8.0) == 8.0


def test_runs_as_it_is_are_before_between_and_after_the_others() -> None:
    cases = list(planned(["refusing"], []))
    assert [figure == AS_IT_IS for _, figure, _ in cases] == [True, *(False, False, True) * 4]
    assert list(planned(["far"], ["CLIMB"])) == []


def test_what_was_measured_already_is_not_measured_again() -> None:
    cases = list(planned(["far"], []))
    done = [Run(*case, {}) for case in cases[:5]]
    assert left(cases, done) == cases[5:]
    assert left(cases, done[:1]) == cases[1:], "of three runs as it is two are left"


def run(figure: str, result: float | None) -> Run:
    return Run("jobs", figure, 8.0 if figure else 1.0, {"workloads a second": result})


@pytest.mark.parametrize(
    ("result", "expected"),
    [(4.5, False), (5.1, False), (6.0, False), (6.1, True), (3.0, False), (2.9, True)],
)
def test_a_result_stands_out_if_it_is_further_from_the_others_than_these_are_from_each_other(
    result: float, expected: bool
) -> None:
    assert stands_out(result, [4.0, 5.0, 4.2]) is expected


def test_the_page_marks_what_stands_out() -> None:
    runs = [run(AS_IT_IS, 4.0), run(AS_IT_IS, 5.0), run("GIVE_WAY_SECONDS", 2.0)]
    assert "| all, 2 runs | as it is | 4 to 5 |" in figures.page(runs)
    assert "| `GIVE_WAY_SECONDS` 0.1 | 0.8 | **2** |" in figures.page(runs)
    assert "| `GIVE_WAY_SECONDS` 0.1 | 0.8 | 5.5 |" in figures.page([*runs[:2], run("GIVE_WAY_SECONDS", 5.5)])
    assert "| `GIVE_WAY_SECONDS` 0.1 | 0.8 | none |" in figures.page([*runs[:2], run("GIVE_WAY_SECONDS", None)])


def test_costs_are_those_of_a_workload_that_finished() -> None:
    found = {
        "finished": 150,
        "workloads a second": 2.0,
        "admission ms": {},
        "create ms": {"p99": 80.0},
        "evictions": 3,
        "writes a workload": 1.0,
        "writes": {"PATCH clusterqueues/status": 10, "PATCH localqueues/status": 20, "PATCH workloads": 570},
        "events a workload": 0.5,
        "queue statuses right after seconds": None,
        "throttled": {"PATCH workloads": 4, "POST events": 1},
    }
    assert results(found, LOADS["baseline"].share(0.04)) == {
        "finished": 150,
        "workloads a second": 2.0,
        "large ones wait s": None,
        "create p99 ms": 80.0,
        "evictions": 3,
        "writes": 4.0,
        "queue statuses": 0.2,
        "events": 2.0,
        "counts right after s": 10.0,
        "answers 429": 5,
    }


async def test_what_is_far_away_answers_late_and_in_order(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data)
        writer.close()
        await writer.wait_closed()
        ended.set()

    sent = "".join(f"{number} " for number in range(1000)).encode()
    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        near = tmp_path / "kubeconfig"
        port = server.sockets[0].getsockname()[1]
        near.write_text(json.dumps({"clusters": [{"cluster": {"server": f"https://127.0.0.1:{port}"}}]}))
        with far(near, 0.05) as path:
            address = json.loads(path.read_text())["clusters"][0]["cluster"]["server"]
            reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
            began = asyncio.get_running_loop().time()
            for place in range(0, len(sent), 10):
                writer.write(sent[place : place + 10])
                await asyncio.sleep(0)
            writer.write_eof()
            assert await reader.read() == sent, "what is on its way arrives after the end of what was sent"
            assert asyncio.get_running_loop().time() - began >= 0.1
            await ended.wait()
            writer.close()
            await writer.wait_closed()
