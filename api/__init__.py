"""The wire: names, quantities, our kinds as models, their CRDs, the Configuration. No I/O; imports nothing of ours."""
