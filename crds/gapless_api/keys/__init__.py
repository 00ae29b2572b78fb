"""Keys and certificates: how they are read, and signatures made with them."""
