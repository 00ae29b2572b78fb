"""Keys, certificates and signatures."""
