"""Assignment of tests to the workers of pytest-xdist."""

from xdist.scheduler import LoadFileScheduling

MIN_FOLDERS = 8  # minimum per worker: with fewer folders some workers would idle


class PackageScheduling(LoadFileScheduling):
    """Assigns whole folders to workers, largest first, if there are enough folders.

    The tests of a folder share networks and games, which each worker must trace and compile. With
    too few folders whole files are assigned, in collection order. Tests outside folders share
    nothing and are assigned one by one.
    """

    by_package = False

    def schedule(self) -> None:
        """Fill the queue after all workers have collected."""
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
