"""Dashboard of the decision service: pages on its experiments, and forms that stop them."""
