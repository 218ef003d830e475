"""Lists of documents with features to prepared data sets: LETOR, LightGBM, feature tables."""
