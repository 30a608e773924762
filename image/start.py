"""Starts the program in the image: ``python -I /opt/seiretsu``, which imports from this folder and Python's own."""

from seiretsu.__main__ import main

main()
