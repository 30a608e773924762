"""The judgement: pure functions on frozen values. No I/O, no clock (``now`` is an argument); imports only ``api``."""
