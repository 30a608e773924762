"""What the page shows, as values: pure functions from State and objects of the caches to rows and documents that the
page draws. Nothing here knows a user, a connection or a clock; what may be named to a reader is a ``Sight``.
"""
