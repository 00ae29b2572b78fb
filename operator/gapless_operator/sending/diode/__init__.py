"""The reconciler of the Diode and the children that it makes."""
