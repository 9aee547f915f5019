-- Whether the newest feedback came as a reward (1) or as a loss (0); NULL before any.
ALTER TABLE experiment ADD COLUMN rewarded BIGINT;
