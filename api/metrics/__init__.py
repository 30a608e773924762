"""Kueue's metrics as users see them: the table of their families, and the labels that the Configuration adds."""
