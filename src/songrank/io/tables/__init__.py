"""Tables in memory and on disk, column by column, with the place of whatever is wrong."""
