"""What is asked and changed about topics: ids, configuration, which there are, and positions of groups."""
