#!/usr/bin/env bash
# SciPy 1.17.1 (Python 3.11).
#
# Behaviour: the two-sided interval of `scipy.stats.quantile_test(x, p=0.5).confidence_interval` is
# asymmetric if a tail of the binomial distribution is exactly (1 - level) / 2. The lower bound is
# then one order statistic too low, or NaN; the upper bound is right. At other levels (0.95 for any
# number of values) both bounds are the expected order statistics.
#
# Guess beforehand: [x(k), x(n + 1 - k)] of n values for the median, with the same k on both sides:
# the smallest and the largest of 5 values at level 1 - 2 / 32.
#
# Output seen:
#   n 5 level 0.9375: low nan high 5.0, expected 1.0 and 5.0
#   n 8 level 0.9296875: low 1.0 high 7.0, expected 2.0 and 7.0
#   n 10 level 0.890625: low 2.0 high 8.0, expected 3.0 and 8.0
#   n 10 level 0.95: low 2.0 high 9.0, expected 2.0 and 9.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet scipy==1.17.1
"$folder/venv/bin/python" - <<'PYTHON'
import sys

from scipy.stats import binom, quantile_test

off = 0
for n, level in ((5, 1 - 2 / 32), (8, 1 - 18 / 256), (10, 1 - 112 / 1024), (10, 0.95)):
    values = [float(i) for i in range(1, n + 1)]
    low, high = quantile_test(values, q=0.0, p=0.5).confidence_interval(level)
    k = sum(binom.cdf(i, n, 0.5) <= (1 - level) / 2 + 1e-12 for i in range(n))
    expected = f"{values[k - 1]} and {values[n - k]}"
    print(f"n {n} level {level}: low {low} high {high}, expected {expected}")
    off += (low, high) != (values[k - 1], values[n - k])
sys.exit(off != 3)
PYTHON
