"""One small file a job kind: how it becomes pod sets, how it is started, stopped and known to be finished."""
