"""The section `seiretsu.forecast`: whether starts are forecast, from what, and whether run times are remembered.

Kueue has no forecast.
"""

from api.configuration.base import Section


class Forecast(Section):
    """When waiting workloads start, by the scheduler run forward in a process of its own."""

    enable: bool = True
    """Without it there is no such process, and no start is known."""
    remember: bool = True
    """Whether what was learned about run times is kept in a ConfigMap over a restart. Without it, no right to write
    ConfigMaps is needed, and the first forecasts after a restart are unknown.
    """
    arrivals: bool = False
    """Whether others are taken to arrive as often as in the last hours, in each LocalQueue. Without it nobody is."""
