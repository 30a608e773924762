"""What each `seiretsu serve --install` works out before it is ready, once for all forks (``tests.forked``): the schemas
of the definitions take a fifth of a second of CPU.
"""

from __future__ import annotations

from api import crds

crds.definitions({})
