"""Kinds of jobs, one small file each, and the rules they share. Pure, on raw dicts."""
