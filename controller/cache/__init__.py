"""The objects of the API server as they are known here, how they are written, and the loop of all reconcilers."""
