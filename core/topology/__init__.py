"""Topology-aware scheduling: on which domains of a flavor's nodes the pods of a workload run.

The tree of domains with what is used in it (``nodes``), how many pods each domain holds (``counts``), a request in
terms of levels (``request``), the choice of domains (``place``, ``balanced``, ``elastic``), the replacement of a failed
node (``replace``), which pod gets which domain (``ungate``), the texts of why pods do not fit (``reasons``), and the
largest domain in words (``largest``) are in this package. It decides on values of the model only: quota, the cycle and
API objects are elsewhere. Source: KEP 2724.
"""

from core.topology.nodes import Domains
from core.topology.place import has_room, is_known, is_quick, place, place_one, prepare
from core.topology.replace import replacement
from core.topology.request import Asked, Misfit, Options

__all__ = [
    "Asked",
    "Domains",
    "Misfit",
    "Options",
    "has_room",
    "is_known",
    "is_quick",
    "place",
    "place_one",
    "prepare",
    "replacement",
]
