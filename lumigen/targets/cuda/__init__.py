"""cuda: GPUs, a kernel of which runs a work tile by a block of threads."""
