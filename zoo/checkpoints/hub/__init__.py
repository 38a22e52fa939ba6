"""The Hub: where checkpoints come from.

`settings` says which Hub, `client` talks to it, `errors` translates failures into plain words; `download`, `upload`,
`browse` and `cache` are what users do with it. This package exports only the download side. Nothing here imports torch or
huggingface_hub before it is needed.
"""

from .download import Pulled, PullOptions, dataset_file, pull, read_config

__all__ = ["PullOptions", "Pulled", "dataset_file", "pull", "read_config"]
