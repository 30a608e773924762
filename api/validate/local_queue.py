"""Rules of a LocalQueue beyond its schema. Kueue has these in the CRD alone; so have we, and the same here."""

from api.errors import FieldError
from api.objects import Raw
from api.validate.common import ANEW, immutable, spec_of


def validate_create(obj: Raw) -> list[FieldError]:
    """Returns the errors of a new LocalQueue: none, the schema has all rules. Feedback warns about its weight."""
    del obj
    return []


def validate_update(old: Raw, new: Raw) -> list[FieldError]:
    """Errors of a changed LocalQueue: it keeps its ClusterQueue, but one that had none may get one."""
    before, after = spec_of(old).get("clusterQueue"), spec_of(new).get("clusterQueue")
    changed = before is not None and after is not None and before != after
    return [*validate_create(new), *(immutable("spec.clusterQueue", before, after, instead=ANEW) if changed else ())]
