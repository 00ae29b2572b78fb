"""Access to the API server: requests, kinds, ownership, its clock."""
