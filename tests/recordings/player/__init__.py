"""Plays recorded scenarios on a control plane, records what happens, and compares it with what Kueue did.

It talks to the API server with plain requests and imports nothing of the product, so that a mistake there cannot hide
here. It works with any controller that serves ``kueue.x-k8s.io/v1beta2``, Kueue too.
"""
