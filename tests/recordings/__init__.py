"""What Kueue itself decided, recorded: see README.md beside this file."""
