"""Truthful reading of shapefiles."""
