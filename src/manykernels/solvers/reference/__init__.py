"""Methods to compare with: classics, baselines and the paper on low rank."""
