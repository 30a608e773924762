"""What is watched and which handlers a change calls, the rights for it, and the start of all of it; leader election."""
