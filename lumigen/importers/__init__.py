"""importers: models of other programs as models of the frontend, whose functions they call."""
