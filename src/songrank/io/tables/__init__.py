"""Tables in memory and on disk, by column; errors name row and column."""
