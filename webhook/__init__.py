"""Admission: one table of hooks, handlers ``(request, lookup) -> response``. Imports ``core`` and ``api`` only."""
