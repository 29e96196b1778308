"""Real SGLang on a CPU, with and without Concur. README.md tells how it is measured."""
