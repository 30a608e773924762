"""The page: it shows queues and workloads to people in a browser, with no more names than their rights show. Nothing
here writes, and nothing of it runs unless ``seiretsu.ui.enable`` is set.
"""
