"""Compares the pods that run with what was admitted: finds pods without quota, whichever way they came to run.

Admission decides what may start; nothing here knows how it can be evaded. Pods and Workloads in, what is to be stopped
and the sentence about it out.
"""
