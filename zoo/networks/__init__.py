"""Networks as torch modules: layers, stacks and heads, how they are built, loaded and counted; fast scans in kernels/."""
