"""A diagnosis as one HTML page without outside resources, and what notebooks show of it and of estimators."""

from .page import fragment, page, write

__all__ = ["fragment", "page", "write"]
