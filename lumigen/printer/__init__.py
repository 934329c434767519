"""Each form as text: stable, one node a line, so that a diff of two dumps explains a pass."""
