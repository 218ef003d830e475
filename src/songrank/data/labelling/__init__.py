"""Texts and instances with labels to prepared data sets: bag of words, raw text, ARFF."""
