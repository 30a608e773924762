"""CA, serving certificate, renewal and caBundle. Imports ``api`` only."""
