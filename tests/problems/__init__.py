"""Problems with known truth, shared by tests and benchmarks."""
