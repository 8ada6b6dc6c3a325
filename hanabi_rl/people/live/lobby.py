"""The server's list of tables: `Lobby`."""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class TableLine:
    """One table in the list."""

    table: int
    running: bool
    players: tuple[str, ...]
    max_players: int
    options: Mapping[str, Any]

    @property
    def is_open(self) -> bool:
        """True if the game has not begun and a seat is free."""
        return not self.running and len(self.players) < self.max_players


class Lobby:
    """The latest list of tables."""

    def __init__(self) -> None:
        self._tables: dict[int, TableLine] = {}

    def on_table_list(self, tables: Any) -> None:
        """`tableList`: replaces all tables."""
        self._tables.clear()
        for table in tables if isinstance(tables, list) else []:
            self.on_table(table)

    def on_table(self, fields: Any) -> None:
        """`table`: adds or updates one table."""
        if not isinstance(fields, Mapping) or type(fields.get("id")) is not int:
            return
        options = fields.get("options")
        options = dict(options) if isinstance(options, Mapping) else {}
        if isinstance(fields.get("variant"), str):
            options.setdefault("variantName", fields["variant"])
        players, limit = fields.get("players"), fields.get("maxPlayers")
        self._tables[fields["id"]] = TableLine(
            table=fields["id"],
            running=bool(fields.get("running") or fields.get("sharedReplay")),
            players=tuple(map(str, players)) if isinstance(players, list) else (),
            max_players=limit if type(limit) is int else 5,
            options=options,
        )

    def on_table_gone(self, table: int) -> None:
        """`tableGone`."""
        self._tables.pop(table, None)

    def get(self, table: int) -> TableLine | None:
        """The table with this number, or None."""
        return self._tables.get(table)

    def table_of(self, player: str) -> TableLine | None:
        """The newest table with this player; a table before its game takes precedence."""
        found = [line for line in self._tables.values() if player in line.players]
        return max(found, key=lambda line: (not line.running, line.table), default=None)
