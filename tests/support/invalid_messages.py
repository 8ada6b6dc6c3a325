"""Invalid messages from a candidate."""

import random
from typing import Any

from hanabi_rl.people.serve.candidate_api import MAX_MESSAGE


def hostile(rng: random.Random) -> str | bytes:
    """Return a random message that is no move."""
    value: Any = rng.choice(
        ["1e400", "-1", "99", "null", "[[[[", '"0"', "NaN", "1.5", '{"a": 1}', "9" * 400, "true"]
    )
    return rng.choice(
        [
            f'{{"agent_0": {value}}}',
            f'{{"agent_{rng.randrange(1, 99)}": 0}}',
            "[" * rng.randrange(1, MAX_MESSAGE // 2),
            rng.randbytes(rng.randrange(MAX_MESSAGE - 64)),  # compression adds bytes
            "\x00" * rng.randrange(1, 99),
            "",
        ]
    )
