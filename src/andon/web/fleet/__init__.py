"""A hub: takes the reports of nodes, and shows each as a server shows its own node."""
