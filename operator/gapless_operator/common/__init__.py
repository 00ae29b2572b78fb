"""What all reconcilers share: observed state, plans, children, conditions, references."""
