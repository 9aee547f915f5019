"""Dashboard of the decision service: pages that show what it does, and forms that stop it."""
