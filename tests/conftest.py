"""What holds for every test: generated cases are the same on every run, and a busy machine fails none of them."""

from hypothesis import settings

settings.register_profile("suite", deadline=None, derandomize=True)
settings.load_profile("suite")
