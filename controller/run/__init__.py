"""What is watched and who is told of changes, the rights for it, and the start of all of it; leader election."""
