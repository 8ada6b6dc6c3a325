"""Assignment of tests to the workers of pytest-xdist."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

MIN_FOLDERS = 8  # minimum per worker: with fewer, some would wait for the last one


class PackageScheduling(LoadFileScheduling):
    """Whole folders, those of most tests first, if there are enough for each worker: the tests of
    a folder play the same games with the same networks, which every worker traces and compiles
    separately. Otherwise whole files, in the order collected. Tests outside a folder share
    nothing: each goes to a worker alone."""

    by_package = False

    def schedule(self) -> None:
        """See `LoadScopeScheduling.schedule`: the queue is filled when all have collected."""
        collected = next(iter(self.registered_collections.values()))
        files = {nodeid.partition("::")[0] for nodeid in collected}
        folders = {file.rpartition("/")[0] for file in files if file.count("/") > 1}
        self.by_package = len(folders) >= MIN_FOLDERS * self.numnodes
        self.config.option.loadscopereorder = self.by_package
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.partition("::")[0].count("/") < 2:
            return nodeid
        scope: str = super()._split_scope(nodeid)
        return scope.rpartition("/")[0] if self.by_package else scope
