"""The engines that benchmarks run on: found at a URL, or started here and ended with everything they started."""
