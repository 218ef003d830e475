"""From a data set and a recipe to a trained model: stages, the loop, checkpoints."""
