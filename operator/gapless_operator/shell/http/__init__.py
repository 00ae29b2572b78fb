"""What the operator serves over HTTP: probes and metrics."""
