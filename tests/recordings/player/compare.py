"""Compare recorded results with golden ones, per family and as a whole."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import Any

from tests.recordings.player.facts import Obj, differing, load, pictures

STATUSES = {"QuotaReserved", "Admitted", "Evicted", "Preempted", "Finished"}
DECISIONS = STATUSES | {
    "there",
    "suspended",
    "parallelism",
    "nodeSelector",
    "tolerations",
    "clusterQueue",
    "podSets",
    "priority",
    "result",
}


def holds(value: Any) -> bool:
    """Whether a recorded condition is true."""
    return str(value).startswith("True")


def counts(level: str, name: str, key: str, want: Any, have: Any) -> bool:
    """Whether a difference counts at a level of comparison."""
    if level == "full":
        return True
    if key in STATUSES and not (holds(want) or holds(have)):
        return False  # why something is not (yet) so
    if level == "status":
        return True
    if key in STATUSES and holds(want) and holds(have):
        return False  # why something is so
    return not name.startswith(("ClusterQueue/", "LocalQueue/")) and key in DECISIONS


def differences(golden: Obj, got: Obj | None, level: str) -> tuple[int, str]:
    """How many steps of a scenario match, and the first difference ('' when there is none)."""
    if got is None:
        return 0, "not in the results"
    matched, first = 0, f"failed: {got['error']}" if "error" in got else ""
    played = pictures(got)
    for number, want in enumerate(pictures(golden)):
        have = played[number] if number < len(played) else {}
        found = [d for d in differing(want, have) if counts(level, d[0], d[1], d[2], d[3])]
        matched += not found
        if found and not first:
            name, key, left, right = found[0]
            first = f"step {number} ({golden['steps'][number]['op']}): {name} {key}: golden {left!r}, got {right!r}"
    return matched, first


def main() -> None:
    """Print the comparison; exit 0 when everything matches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("golden")
    parser.add_argument("results")
    parser.add_argument(
        "--level",
        choices=("decisions", "status", "full"),
        default="full",
        help="decisions: what runs where; status: also counts, usage and reasons; full: also the reasons of waiting",
    )
    parser.add_argument("--played", action="store_true", help="leave out golden scenarios that are not in the results")
    args = parser.parse_args()
    golden, results = load(args.golden), load(args.results)
    if args.played:
        golden = {sid: report for sid, report in golden.items() if sid in results}
    totals, matches, failures = Counter[str](), Counter[str](), []
    for sid, report in sorted(golden.items()):
        steps, first = differences(report, results.get(sid), args.level)
        family = report["family"]
        totals.update({family: 1, f"{family} steps": len(report["steps"])})
        matches.update({family: int(not first), f"{family} steps": steps})
        if first:
            failures.append(f"{sid}: {first}")
    for family in sorted(f for f in totals if " " not in f):
        print(
            f"{family}: {matches[family]}/{totals[family]} scenarios, "
            f"{matches[f'{family} steps']}/{totals[f'{family} steps']} steps"
        )
    print(*failures, sep="\n", end="\n" if failures else "")
    agreed = len(golden) - len(failures)
    print(f"agreement: {agreed}/{len(golden)} scenarios ({100 * agreed / max(1, len(golden)):.1f} %)")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
