"""Checkpoints: how they are named and found (reference, checkpoint, hub/), and their files.

The files are config.json (configs), model.safetensors (tensors), vocabulary.txt (tokenizer) and results.json (results).
"""
