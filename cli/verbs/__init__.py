"""The commands of ``kubectl seiretsu`` that kueuectl has, with its words, flags and output: docs/plugin.md.

One file for each verb; ``cli.main`` has the table.
"""
