"""Taking over what waits in the tables of other backends for Django Tasks."""
