"""Which worker of pytest-xdist runs what."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

ROOMS = 8  # for each worker: fewer, and some would wait for the last one


class RoomScheduling(LoadFileScheduling):
    """Whole rooms, those of most tests first, where there are enough of them for each worker: the
    tests of a room play the same games with the same networks, which every worker traces and
    compiles for itself. Else whole files, as they are collected. What is in no room shares nothing:
    each of its tests goes to a worker by itself."""

    by_room = False

    def schedule(self) -> None:
        """See `LoadScopeScheduling.schedule`: the queue is filled when all have collected."""
        collected = next(iter(self.registered_collections.values()))
        files = {nodeid.partition("::")[0] for nodeid in collected}
        rooms = {file.rpartition("/")[0] for file in files if file.count("/") > 1}
        self.by_room = len(rooms) >= ROOMS * self.numnodes
        self.config.option.loadscopereorder = self.by_room
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.partition("::")[0].count("/") < 2:
            return nodeid
        scope: str = super()._split_scope(nodeid)
        return scope.rpartition("/")[0] if self.by_room else scope
