"""The version before the stored one: only kinds with different fields."""
