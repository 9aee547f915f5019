"""Interoperability: adapters to river, Gymnasium and LiteLLM, and logs of decisions.

Each module needs its own package only when it is imported.

======================= =========================================================================
`interop.river`         a policy of this library inside river's bandit evaluation
`interop.gymnasium`     an environment of this library as a Gymnasium environment
`interop.litellm`       a router of language models that learns, on LiteLLM
`interop.logs`          logged decisions: JSON lines, Parquet, Vowpal Wabbit, Open Bandit Dataset
======================= =========================================================================

``pip install "bothworlds[interop]"`` installs river and Gymnasium, ``"bothworlds[litellm]"``
LiteLLM, ``"bothworlds[lab]"`` Parquet.
"""

from typing import TYPE_CHECKING

from bothworlds.lazy import lazily

if TYPE_CHECKING:
    from bothworlds.interop import gymnasium, litellm, logs, river

__all__ = ["gymnasium", "litellm", "logs", "river"]


# Importing this package needs none of the other packages.
if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, {name: name for name in __all__})
