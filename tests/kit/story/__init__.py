"""Rounds through the product: the demonstration, a resend, a big finding."""
