"""Recorded games as replays in the browser: `RecordedGames`. No JAX."""

from __future__ import annotations

from hanabi_rl.data.games import Games
from hanabi_rl.people.serve.folder import as_game
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.people.serve.tables import GameTables


class RecordedGames(GameTables):
    """Games of a file, all hands face up; a game's id is its index in `games`."""

    watched = True

    def __init__(self, games: Games) -> None:
        super().__init__(games.rules)
        self._recorded = games

    def __len__(self) -> int:
        return len(self._recorded)

    def game(self, game_id: int) -> Game:
        """See `GameTables.game`."""
        if game_id not in self._games and 0 <= game_id < len(self):
            left = bool(self._recorded.unfinished[game_id])
            self._games[game_id] = as_game(self._recorded, game_id, game_id, left=left)
        return super().game(game_id)
