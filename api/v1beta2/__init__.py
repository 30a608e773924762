"""The stored version of Seiretsu's kinds, as pydantic models: the source of the CRDs. Hot paths read raw objects
instead. Classes have the names of the kinds and fields in the API.
"""
