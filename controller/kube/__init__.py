"""Communication with an API server: client, reflector, work queue, elector, events. It contains no queueing."""
