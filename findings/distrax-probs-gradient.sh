#!/usr/bin/env bash
# distrax 0.1.9, jax 0.10.2, CPU backend (Python 3.11).
#
# Behaviour: of a categorical distribution made from probabilities, one of them exactly 0, entropy and
# KL divergence are right but their gradients are NaN, for legal actions too. A masked softmax (an
# illegal action) and one whose smallest probability underflows have such a 0. Made from logits, with
# -inf for the illegal action, the values are the same and the gradients finite. The value is
# protected against 0 * log(0), so a run looks healthy until its first update.
#
# Guess beforehand: finite gradients both ways, because the value is protected.
#
# Output seen:
#   illegal action, logits:  entropy 0.635  gradient [0.155, 0.0, -0.155]
#   illegal action, probs:   entropy 0.635  gradient [nan, 0.0, nan]
#   underflow, logits:       entropy 0.0  gradient [0.0, 0.0, 0.0]
#   underflow, probs:        entropy 0.0  gradient [nan, nan, nan]
#   illegal action, logits:  KL 0.049  gradient [-0.113, 0.0, 0.113]
#   illegal action, probs:   KL 0.049  gradient [nan, 0.0, nan]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet distrax==0.1.9 jax==0.10.2 jaxlib==0.10.2
cat > "$folder/seen.py" <<'PYTHON'
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
import distrax
import jax
import jax.numpy as jnp

ALL, LEGAL = jnp.array([True, True, True]), jnp.array([True, False, True])


def by_logits(x, legal):
    return distrax.Categorical(logits=jnp.where(legal, x, -jnp.inf))


def by_probs(x, legal):
    return distrax.Categorical(probs=jax.nn.softmax(x, where=legal))


def entropy(made, legal):
    return lambda x: made(x, legal).entropy()


def divergence(made, legal):
    return lambda x: made(x, legal).kl_divergence(made(2 * x, legal))


def line(case, kind, name, of, x):
    value, gradient = jax.value_and_grad(of)(jnp.array(x))
    shown = ", ".join(str(round(float(g), 3) + 0.0) for g in gradient)
    return f"{case + ', ' + kind + ':':<25}{name} {round(float(value), 3) + 0.0}  gradient [{shown}]"


lines = []
for name, measure in (("entropy", entropy), ("KL", divergence)):
    for case, x, legal in (
        ("illegal action", [0.3, 0.5, 1.0], LEGAL),
        ("underflow", [0.0, 200.0, 0.0], ALL),
    ):
        if (name, case) == ("KL", "underflow"):
            continue
        for kind, made in (("logits", by_logits), ("probs", by_probs)):
            lines.append(line(case, kind, name, measure(made, legal), x))
print("\n".join(lines))
bad = ["nan" in found.split("gradient")[1] for found in lines]
if bad != [False, True] * 3 or any("nan" in found.split("gradient")[0] for found in lines):
    sys.exit("the behaviour changed")
PYTHON
"$folder/venv/bin/python" "$folder/seen.py"
