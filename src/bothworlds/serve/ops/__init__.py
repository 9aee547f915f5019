"""Operation of the decision service: upkeep, verification, metrics, logs, exports, reports."""
