"""`seiretsu report`: what was used, who waited and who was preempted, as a table, CSV or a page with pictures."""
