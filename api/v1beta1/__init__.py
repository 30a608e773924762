"""The version before the stored one: only what is spelled differently there."""
