"""Parts of benches/compare. Standard library only."""
