"""What every room shares: Relevance, Slate, ids, argument checks and errors."""
