"""Encodings that several files share: strict JSON, canonical forms, Roaring bitmaps."""
