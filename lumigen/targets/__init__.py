"""targets: a folder for each target, which has its row and what spells its kernels."""
