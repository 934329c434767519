"""Apple's GPUs, by kernels in the Metal Shading Language."""
