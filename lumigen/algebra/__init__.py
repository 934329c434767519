"""Equal programs of a graph: rules over named axes in an e-graph, and the cheapest program that they find."""
