"""Checkpoints: how they are named and where they come from (references, sources, hub/), and how their files are read.

The files are config.json (configs), model.safetensors (tensors), vocabulary.txt (tokenizer) and results.json (results).
"""
