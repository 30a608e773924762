"""Rules of a topology assignment beyond its schema: its levels, slices and domains fit together.

The CRD has the same rules as CEL. Source: KEP-2724, the compact form of v1beta2.
"""

from api.errors import FieldError, broken_rule
from api.objects import Raw

_ONE = "exactly one of the fields in [universal individual] must be set"


def assignment(path: str, found: Raw) -> list[FieldError]:
    """Errors of one `topologyAssignment`. Costs the number of slices and levels, not of domains."""
    slices: list[Raw] = found["slices"]
    errors = []
    for index, part in enumerate(slices):
        errors += _slice(f"{path}.slices[{index}]", part)
    if any(len(part["valuesPerLevel"]) != len(found["levels"]) for part in slices):
        text = "valuesPerLevel must have the same length as the number of levels in this TopologyAssignment"
        errors.append(broken_rule(path, text))
    return errors


def _slice(path: str, part: Raw) -> list[FieldError]:
    counts, levels, domains = part["podCounts"], part["valuesPerLevel"], part["domainCount"]
    errors = []
    for index, level in enumerate(levels):
        errors += [] if _one_of_both(level) else [broken_rule(f"{path}.valuesPerLevel[{index}]", _ONE)]
    errors += [] if _one_of_both(counts) else [broken_rule(f"{path}.podCounts", _ONE)]
    if len(counts.get("individual") or range(domains)) != domains:
        errors.append(broken_rule(path, "podCounts.individual must have length equal to domainCount"))
    if any(len(level["individual"]["roots"]) != domains for level in levels if level.get("individual")):
        text = (
            "valuesPerLevel.individual, if set, must have roots of length equal to domainCount of this"
            " TopologyAssignmentSlice"
        )
        errors.append(broken_rule(path, text))
    return errors


def _one_of_both(values: Raw) -> bool:
    return (values.get("universal") is None) != (values.get("individual") is None)
