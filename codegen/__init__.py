"""From a cell to text: derivatives, statements, plans and sources. Needs no device."""
