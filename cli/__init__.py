"""The commands of ``seiretsu``."""
