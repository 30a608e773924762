"""What a Python program of a user imports: ``seiretsu.client``."""
