"""What keeps an archive small: joining segments, removing old ones, deleting what is no longer part of it."""
