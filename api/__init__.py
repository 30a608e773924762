"""The wire: names, quantities, our kinds as models, their CRDs, and the Configuration. No I/O; imports nothing of ours."""
