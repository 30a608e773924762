"""Forecasts of starts, made all the time in a process of their own; the controller has the latest."""
