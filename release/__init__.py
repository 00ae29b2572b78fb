"""How a release is made: `make release VERSION=x`. Must not know what the product does."""
