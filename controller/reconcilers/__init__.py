"""A module for each kind of object that is kept as it should be: gathers what is known, does what core decides."""
