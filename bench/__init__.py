"""Performance harness, run by ``make bench``."""
