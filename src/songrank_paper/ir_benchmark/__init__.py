"""Twelve losses on IR-Benchmark, beside the table of SL@K (KDD 2025): ``songrank paper ir-benchmark``."""

from songrank_paper.ir_benchmark.experiment import IrBenchmark, IrBenchmarkLightGCN, IrBenchmarkMF

__all__ = ["IrBenchmark", "IrBenchmarkLightGCN", "IrBenchmarkMF"]
