"""Why a workload waits, what it would need and who holds that: ``analysis`` finds it, ``explanation`` is its result."""
