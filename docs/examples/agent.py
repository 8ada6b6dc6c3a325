"""Example program for `--process`: play a known playable card, hint a playable card, or discard."""

import json
import sys

for line in sys.stdin:
    asked = json.loads(line)
    view, moves = asked["view"], {move["text"]: move["action"] for move in asked["legal"]}
    wanted = []
    for slot, card in enumerate(view["hands"][view["you"]], start=1):
        can_be = [(color, rank) for color in card["colors"] for rank in card["ranks"]]
        if all(view["fireworks"][color] == rank - 1 for color, rank in can_be):
            wanted.append(f"Play slot {slot}")
    for name, hand in zip(view["names"], view["hands"], strict=True):
        for card in hand if name != "You" else []:
            color, rank = card["card"]
            if view["fireworks"][color] == rank - 1:
                missing = rank if card["rank"] is None else view["colors"][color]
                wanted.append(f"Hint {name} {missing}")
    wanted += [text for text in moves if text.startswith("Hint") and view["hints"] > 4]
    wanted += ["Discard slot 1", *moves]
    print(json.dumps({"action": next(moves[text] for text in wanted if text in moves)}), flush=True)
