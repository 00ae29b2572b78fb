"""A lossy one-way link, UDP listeners and network namespaces."""
