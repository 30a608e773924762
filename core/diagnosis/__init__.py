"""Finds what is wrong with a cluster and its installation: ``findings`` has one rule for each fault, ``facts`` what the
rules read, ``redaction`` removes from objects what a report must not contain.
"""
