"""What was decided, and from which input: ``recorded`` takes it from State, ``entries`` is its form, ``replay`` plays
it again.
"""
