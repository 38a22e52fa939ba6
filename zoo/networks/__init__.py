"""Specifications become torch modules: layers, stacks, networks, how they are built, loaded and run fast (kernels/)."""
