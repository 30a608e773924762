"""Between JSON and the values of ``core.model``: what is read from API objects, and the patches that change them.

Decoding, conditions and times, effective requests of pods, and guards of writes live here. Nothing here decides what
happens to a workload.
"""
