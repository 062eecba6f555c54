"""Ingest every version of every shapefile bundle exactly once.

The entry points are in `main`; the design is in `docs/architecture.md`.
"""
