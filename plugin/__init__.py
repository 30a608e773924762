"""What a release publishes of `kubectl seiretsu`: archives with the plugin, and their manifest for krew.

Used on the machine that makes the release; the program imports nothing of it.
"""
