"""Okabe and Ito's palette: told apart with any colour vision; dashes repeat the difference for
print."""

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")
