"""The version before the stored one: only kinds with different fields. Classes have the same names as in v1beta2,
because the kinds have.
"""
