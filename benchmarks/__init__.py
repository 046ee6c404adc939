"""Speed and quality against peers, side by side in one run; `python -m benchmarks` runs all of them."""
