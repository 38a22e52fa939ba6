"""Networks as torch modules: layers, stacks and heads, how they are built, loaded and counted; fused and linear scans in kernels/."""
