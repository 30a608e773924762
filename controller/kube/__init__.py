"""How we speak with an API server: client, reflector, work queue, elector, events. Knows nothing of queueing."""
