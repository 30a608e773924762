"""Performance harness, run by ``make bench``.

It measures the program from outside: its classes may have the names of those of the program, and none has that of
another one here.
"""
