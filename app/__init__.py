"""Composition: the ASGI app, its lifespan, readiness, and ``serve``. The only layer that knows all the others."""
