"""Rendering of results: tables, figures and self-contained HTML pages."""
