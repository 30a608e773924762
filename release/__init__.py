"""Makes what a release publishes, from one tag: ``make release``.

Used on the machine that makes the release; the program imports nothing of it.
"""
