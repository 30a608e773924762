"""Composition: the ASGI app, its lifespan, readiness, and ``serve``. The only layer that imports all others."""
