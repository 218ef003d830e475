"""The training loop: stages, steps, batch adapters, CUDA graph capture."""
