"""The processes of a resend: one, several, or shards."""
