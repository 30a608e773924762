"""What is checked of a job when it is created or changed, whatever its kind: labels and annotations.

Pure rules that return field errors in Kubernetes' form. A kind's file uses them for its own fields; requests, patches
and warnings are the webhook's.
"""
