"""Modules of benches/compare. Use only the standard library."""
