"""cpu: processors, a kernel of which runs a work tile by one thread."""
