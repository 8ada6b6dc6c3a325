"""Example client of the action-prediction track of `hanabi-rl serve`:
`predict("wss://HOST:8643/", KEY, load_policy("runs/mine"))`."""

import json

import jax
import numpy as np
from websockets.sync.client import connect


def predict(address, key, policy):
    """The server's last frame: {"done": true}, or its error."""
    rules, step = policy.rules, jax.jit(type(policy).step)
    query = f"predict?submission_key={key}&num_players={rules.num_players}"
    with connect(address + query, max_size=2**20, ping_timeout=120) as server:
        server.recv()  # the greeting
        while "rows" in (frame := json.loads(server.recv())):
            if frame["turn"] == 0:
                carry = policy.init_carry(16)
            obs = np.zeros((16, rules.obs_size), np.float32)
            legal = np.ones((16, rules.num_actions), bool)
            for row, seen in frame["rows"].items():
                obs[int(row)], legal[int(row)] = seen["obs"], seen["legal_moves"]
            carry, logits = step(policy, carry, obs, legal, np.full(16, frame["turn"] == 0))
            finite = np.nan_to_num(np.asarray(logits, float))  # JSON has no infinity
            deciding = [row for row, seen in frame["rows"].items() if seen["decides"]]
            answer = {row: finite[int(row)].tolist() for row in deciding}
            server.send(json.dumps({"log_probabilities": answer}))
    return frame
