"""What every part of the sender uses: shutdown, memory, log, network facts, sharding."""
