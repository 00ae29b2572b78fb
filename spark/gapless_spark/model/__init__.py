"""The rules for what is missing, as pure functions and data: windows, bitmaps, expectations, outcomes."""
