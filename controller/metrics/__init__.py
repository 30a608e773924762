"""Kueue's metrics (``api.metrics`` is their table): counters, gauges that are read at a scrape, the data for both."""
