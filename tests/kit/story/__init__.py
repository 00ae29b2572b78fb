"""End-to-end runs of the product: the demonstration, resends, and builders for messages and reports."""
