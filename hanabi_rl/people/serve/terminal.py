"""Text view of the table and terminal play, with the frames of the page but without colours.

Works in a terminal, with a screen reader and through a pipe. No JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hanabi_rl.games.hanabi.view_json import Frame
from hanabi_rl.people.serve.lifecycle import RefusedError
from hanabi_rl.people.serve.local import LocalPlay
from hanabi_rl.storage.files import BYTE_ORDER_MARK
from hanabi_rl.storage.words import count

HELP = """p 2     play slot 2 (slot 1 is the oldest card)  d 1     discard slot 1
h r     hint your partner red (y g w b, or 1-5)  h 2 r   hint the second player red
table   show the table again                     leave   end this game here
help    this list                                quit    stop; the game is saved"""
BAR = 20  # characters of a probability of 1
MAX_BARS = 8  # most probable actions that are shown


def table_text(frame: Frame) -> str:
    """Table as lines of text, oldest card first."""
    letters = frame["letters"]
    piles = " ".join(f"{letters[c]}{height}" for c, height in enumerate(frame["fireworks"]))
    discards = " ".join(_face(letters, card) for card in sorted(frame["discards"])) or "none"
    points = frame["score"] if frame["over"] else frame["points"]
    lines = [
        f"Turn {frame['turn'] + 1} · hints {frame['hints']} of {frame['max_hints']} · lives "
        f"{frame['lives']} of {frame['max_lives']} · deck {frame['deck']} · "
        f"{count(points, 'point')}",
        f"  Fireworks  {piles}",
        f"  Discards   {discards}",
    ]
    for seat in _around(frame):
        lines += _hand_lines(frame, seat)
    return "\n".join(lines)


def bars_text(frame: Frame) -> str:
    """Bars of the agent's action probabilities; empty if unknown."""
    lines = []
    for bar in frame.get("chances", [])[:MAX_BARS]:
        mark = ">" if bar["taken"] else " "
        length = round(bar["chance"] * BAR)
        filled = "█" * length + "·" * (BAR - length)
        lines.append(f"  {mark} {bar['text']:<22} {filled} {bar['chance']:6.1%}")
    return "\n".join(lines)


def memory_text(games: int) -> str:
    """Message about a partner that remembers `games` games with the person."""
    if not games:
        return "Your partner has no games with you yet; it will remember how you play"
    return f"Your partner remembers how you played in {games} game{'s' if games > 1 else ''}"


def play_terminal(
    play: LocalPlay, lines: Iterable[str], show: Callable[[str], None] = print, games: int = 1
) -> None:
    """Play `games` games with the moves in `lines`; stop, and keep the game, at the end of
    `lines`."""
    source = iter(lines)
    for _ in range(games):
        if not _play_game(play, source, show):
            return


def watch_terminal(
    play: LocalPlay, lines: Iterable[str], show: Callable[[str], None] = print
) -> None:
    """Show a game of agents: each line (Enter) shows the next move, the end of `lines` stops."""
    game_id = play.new_game().game_id
    source = iter(lines)
    while play.partner_to_move(game_id):
        answer = play.partner_action(game_id)
        frame = play.frame(game_id)
        show(f"{table_text(frame)}\n{bars_text(frame)}")
        play.partner_moves(game_id, frame["turn"], answer)
        reading = play.conventions(play.game(game_id))[-1]
        show(f"{play.frame(game_id)['log'][-1]} ({reading})\n")
        if next(source, "quit").strip().lower() in ("q", "quit"):
            return
    show(_ending(play.frame(game_id)))


def _play_game(play: LocalPlay, source: Iterator[str], show: Callable[[str], None]) -> bool:
    """Play one game; True if it ended."""
    game_id = play.current().game_id
    show(f"With {', '.join(agent for agent in play.agents)}. `help` lists what you can type.")
    if play.remembers:
        text = memory_text(len(play.game(game_id).previous_games))
        show(f"{text} (`--reset-memory` starts over).")
    show("")
    num_shown = len(play.frame(game_id)["log"])
    while True:
        while play.partner_to_move(game_id):
            turn = play.game(game_id).turn
            play.partner_moves(game_id, turn, play.partner_action(game_id))
        frame = play.frame(game_id)
        for line in frame["log"][num_shown:]:
            show(line)
        num_shown = len(frame["log"])
        if frame["over"]:
            show("\n" + table_text(frame))
            show(_ending(frame))
            return True
        show("\n" + table_text(frame) + "\nYour move:")
        if not _read_move(play, game_id, source, show):
            show("The game is saved; repeat the command to continue.")
            return False


def _read_move(
    play: LocalPlay, game_id: int, source: Iterator[str], show: Callable[[str], None]
) -> bool:
    """Read lines until a move or `leave`; False at their end."""
    frame = play.frame(game_id)
    for line in source:
        words = line.lstrip(BYTE_ORDER_MARK).lower().split()
        try:
            if not words or words == ["table"]:
                show(table_text(frame))
            elif words[0] in ("help", "?"):
                show(HELP)
            elif words[0] in ("q", "quit"):
                return False
            elif words == ["leave"]:
                play.leave(game_id)
                return True
            else:
                play.move(game_id, frame["turn"], read_action(frame, words))
                return True
        except RefusedError as error:
            show(f"Invalid: {error}.")
    return False


def read_action(frame: Frame, words: list[str]) -> int:
    """Parse a move: `p 2`, `d 1`, `h red`, `h 2 r`, `h bob 3`.

    Raises RefusedError with the expected input or the rule that forbids the move.
    """
    kinds = {"p": "play", "d": "discard", "h": "hint", "t": "hint", "c": "hint"}
    kind = kinds.get(words[0][0], "")
    if words[0] not in (kind, kind[:1], "t", "tell", "c") or len(words) < 2:
        raise RefusedError(
            "expected p, d or h with a slot or hint, as in `p 2` or `h r` (see `help`)"
        )
    for action in frame["actions"]:
        matches = _is_slot(action, words) if kind != "hint" else _is_hint(frame, action, words)
        if matches and (kind == "hint") == (action["target"] is not None):
            if kind != "hint" and action["kind"] != kind:
                continue
            if action["why_not"]:
                raise RefusedError(action["why_not"])
            return int(action["id"])
    raise RefusedError(f"no such move: {' '.join(words)!r}")


def _is_slot(action: Frame, words: list[str]) -> bool:
    return len(words) == 2 and words[1] == str(action["slot"])


def _is_hint(frame: Frame, action: Frame, words: list[str]) -> bool:
    if action["target"] is None or len(words) not in (2, 3):
        return False
    others = [seat for seat in _around(frame) if seat != frame["you"]]
    name = frame["names"][action["target"]].lower()
    recipient = words[1] if len(words) == 3 else None
    if recipient is None and len(others) > 1:
        return False
    if recipient not in (None, name, name[0], str(others.index(action["target"]) + 1)):
        return False
    if action["kind"] == "rank":
        return words[-1] == str(action["value"])
    color = frame["colors"][action["value"]]
    return words[-1] in (color, frame["letters"][action["value"]].lower())


def _around(frame: Frame) -> list[int]:
    """Seats in playing order after the viewer's, which comes last."""
    players = len(frame["names"])
    first = 0 if frame["you"] is None else frame["you"] + 1
    return [(first + offset) % players for offset in range(players)]


def _hand_lines(frame: Frame, seat: int) -> Iterator[str]:
    name, letters = frame["names"][seat], frame["letters"]
    mark = ">" if seat == frame["to_move"] and not frame["over"] else " "
    faces = [_face(letters, card["card"]) for card in frame["hands"][seat]]
    hints = [_knowledge_text(frame, card) for card in frame["hands"][seat]]
    widths = [max(len(face), len(hint)) for face, hint in zip(faces, hints, strict=True)]
    for title, cells in ((f"{mark} {name:<9}  ", faces), (" " * 13, hints)):
        row = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        yield (title + row).rstrip()


def _face(letters: list[str], card: list[int] | None) -> str:
    return "??" if card is None else f"{letters[card[0]]}{card[1]}"


def _knowledge_text(frame: Frame, card: Frame) -> str:
    """`R-`: hinted red; `-3`: hinted 3; `--!RY1`: not red, not yellow, not 1."""
    letters, color, rank = frame["letters"], card["color"], card["rank"]
    text = ("-" if color is None else letters[color]) + ("-" if rank is None else str(rank))
    excluded = ""
    if color is None:
        excluded += "".join(letters[c] for c in range(len(letters)) if c not in card["colors"])
    if rank is None:
        ranks = range(1, frame["ranks"] + 1)
        excluded += "".join(str(r) for r in ranks if r not in card["ranks"])
    return text + (f"!{excluded}" if excluded else "")


def _ending(frame: Frame) -> str:
    word = "The game was left" if frame["left"] else "The game is over"
    link = f"\n{frame['link']}" if frame.get("link") else ""
    return f"{word}: {frame['score']} of {frame['max_score']} points.{link}"
