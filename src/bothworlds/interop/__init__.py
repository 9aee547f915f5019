"""Doors to other software; each module needs its own package only when it is imported.

======================= =========================================================================
`interop.river`         a policy of this library inside river's bandit evaluation
`interop.gymnasium`     an environment of this library as a Gymnasium environment
`interop.logs`          logged decisions: JSON lines, Parquet, Vowpal Wabbit, Open Bandit Dataset
======================= =========================================================================

``pip install "bothworlds[interop]"`` brings river and Gymnasium, ``"bothworlds[lab]"`` Parquet.
"""
