"""The stored version of our kinds, as pydantic models: the source of the CRDs. Hot paths read raw objects instead."""
