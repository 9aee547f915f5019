"""Campaigns: curves cut into shards, run by workers, and kept in a store."""
