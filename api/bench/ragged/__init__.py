"""Modules on rows of several lengths and with resets, beside what people do without either."""
