"""The figures of a report: what its drawings show, as coordinates and bytes."""
